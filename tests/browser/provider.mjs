// An identity provider as companies run one, for the tests of single sign-on. Whoever gives a name and any password is let in.
// node provider.mjs PORT CERTIFICATE KEY REDIRECT...
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { Provider } from 'oidc-provider';

const [port, certificate, key, ...redirects] = process.argv.slice(2);
const groups = { jane: ['staff', 'ids-admins'], olga: ['ids-operators'], victor: ['staff'] };

const provider = new Provider(`https://localhost:${port}`, {
  clients: [{ client_id: 'console', client_secret: 'not plain: %+&=', redirect_uris: redirects }],
  // Told apart from the token, as the standard has it for claims of a scope.
  claims: { openid: ['sub'], email: ['email'], profile: ['groups'] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@example.com`, groups: groups[id] ?? [] }),
  }),
  features: { devInteractions: { enabled: true } },
  pkce: { required: () => true },
  cookies: { keys: ['of this test'] },
});
const tls = { cert: readFileSync(certificate), key: readFileSync(key) };
createServer(tls, provider.callback()).listen(Number(port), '127.0.0.1', () => console.log('listening'));
