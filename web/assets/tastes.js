"use strict";
// The viewer's own choices of language and look, kept in cookies that say nothing of who somebody is.

const TASTE_SECONDS = 365 * 24 * 3600;

for (const select of document.querySelectorAll("select[data-cookie]")) {
  select.addEventListener("change", () => {
    document.cookie = `${select.dataset.cookie}=${select.value}; Path=/; Max-Age=${TASTE_SECONDS}; SameSite=Lax`;
    location.reload();
  });
}
