#!/usr/bin/env python3
"""Checks the commands in README.md, CONTRIBUTING.md and docs/ against the programs; scripts/docs.sh --check runs it.

A program's flags, and the settings in TOML, are in its --help; a script's are in the script. The method and the path of a curl at a usual
port are in the OpenAPI description of an agent or a master. What is asked of an agent on this machine is asked of one with --dev, a new
one for each page, and must not be refused.
"""
import contextlib
import glob
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

BINS = os.environ.get("UNIQ_BIN_DIR") or os.environ.get("CARGO_TARGET_DIR", "target") + "/debug"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("UNIQ_")} | {"UNIQ_SECRETS": "5a" * 32}
# A program, or an example that has its flags; then what belongs to the call.
CALL = re.compile(r"(?<![\w./-])(?:/usr/local/bin/)?(uniq_master|uniq_generator|--example \w+ --|scripts/\w+\.sh)(?!\S)([^|&;#]*)")
FLAG = re.compile(r"(?<![\w-])--?[a-zA-Z][a-z0-9-]*")
URL = re.compile(r"(?:https?://)?([\w.-]+):(6200|7301)(/[^?]*)?(?:\?.*)?")
# What Leaf has.
OTHERS = ["GET /api/segment/get/KEY", "GET /api/snowflake/get/KEY"]


@contextlib.contextmanager
def running(*command):
    """The address of a program while it runs, and what can be asked there."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    program = subprocess.Popen([*command, address], stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    try:
        for attempt in range(200):
            try:
                with urllib.request.urlopen(f"http://{address}/openapi.json", timeout=10) as answer:
                    paths = json.load(answer)["paths"]
                break
            except OSError:
                if attempt == 199 or program.poll() is not None:
                    sys.exit(f"examples: {shlex.join(command)} {address} does not start")
                time.sleep(0.05)
        yield address, [f"{method.upper()} {re.sub(r'{.*?}', '[^/]+', path)}" for path, its in paths.items() for method in its]
    finally:
        program.terminate()
        program.wait()


def examples(text):
    """The number of the last line, the language, the command, and the block it stands in."""
    for block in re.finditer(r"^ *```(sh|console|ini|toml)\n(.*?)^ *```$", text, re.M | re.S):
        number, pending = text.count("\n", 0, block.start()) + 1, ""
        for line in block[2].splitlines():
            number += 1
            if block[1] == "console" and not pending and not line.lstrip().startswith("$ "):
                continue
            pending += line.strip().removeprefix("$ ")
            # The rest stands in the next line, after a backslash or in a quotation.
            with contextlib.suppress(ValueError):
                if not pending.endswith("\\") and shlex.split(pending, comments=True) is not None:
                    yield number, block[1], pending, block[2]
                    pending = ""
            pending = pending.removesuffix("\\")
    for span in re.finditer(r"`((?:uniq_master|uniq_generator|scripts/\w+\.sh) [^`]+)`", text):
        yield text.count("\n", 0, span.end()) + 1, "sh", span[1], ""
    for span in re.finditer(r"`((?:GET|PUT|POST|DELETE) /api/[^?`\s]+)", text):
        yield text.count("\n", 0, span.end()) + 1, "request", span[1], ""


def faults(language, command, block, known, agent):
    """What is wrong with a command."""
    if language == "toml":
        settings = {flag.lstrip("-").replace("-", "_") for flag in known["uniq_master"] + known["uniq_generator"]}
        yield from (f"no program has the setting {key}" for key in re.findall(r"^(?:# )?(\w+) = ", command) if key not in settings)
    if language == "request" and not any(re.fullmatch(route, command) for route in known["7301"] + OTHERS):
        yield "a master has no such request"
    if language in ("toml", "request"):
        return
    for program, rest in CALL.findall(command):
        there = known.get(program, known["uniq_generator"])
        if program.startswith("scripts/"):
            with open(program, encoding="utf-8") as script:
                # What --help says is between these words.
                there = FLAG.findall(re.split(r"<<'\w+'|\n(?:EOF|HELP)\n", text := script.read())[1 if "<<'" in text else 0])
        yield from (f"{program} has no {flag}" for flag in FLAG.findall(rest) if flag not in there)
    words = shlex.split(command, comments=True)
    url = next(filter(None, map(URL.fullmatch, words)), None)
    if "curl" not in command or url is None:
        return
    posts = any(re.match("-d$|--data|--json", word) for word in words)
    asked = f"{words[words.index('-X') + 1] if '-X' in words else 'POST' if posts else 'GET'} {url[3] or '/'}"
    if not any(re.fullmatch(route, asked) for route in known[url[2]]):
        yield f"there is no {asked} at port {url[2]}"
    elif url[2] == "6200" and url[1] in ("localhost", "127.0.0.1") and "cargo run" not in block and "https:" not in command:
        # Bash knows what the quotations mean; a status is the last line.
        command = command.replace(f"{url[1]}:6200", agent).replace("-o /dev/null", "").replace("curl", "curl --retry 5 -w '\\n%{http_code}'", 1)
        said = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=ENVIRONMENT, check=False)
        if not re.search(r"\n[23]\d\d$", said.stdout):
            yield f"refused: {' '.join(said.stdout.split()) or said.stderr}"


def main():
    known, checked, wrong = {}, 0, []
    for name in ("uniq_master", "uniq_generator"):
        known[name] = FLAG.findall(subprocess.run([f"{BINS}/{name}", "--help"], check=True, capture_output=True, text=True).stdout)
    with tempfile.TemporaryDirectory() as store:
        master = [f"{BINS}/uniq_master", "--data-dir", f"{store}/store"]
        subprocess.run([*master, "--format", "--id", "1"], check=True, capture_output=True, env=ENVIRONMENT)
        ports = ["--agent-listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--peer", "127.0.0.1:1"]
        with running(*master, *ports, "--web-listen") as (_, known["7301"]):
            pass
    for page in ["README.md", "CONTRIBUTING.md", *sorted(glob.glob("docs/**/*.md", recursive=True))]:
        with open(page, encoding="utf-8") as lines:
            found = list(examples(lines.read()))
        agent = running(f"{BINS}/uniq_generator", "--dev", "--rpc-listen", "127.0.0.1:0", "--http-listen")
        with agent if any("6200" in it[2] for it in found) else contextlib.nullcontext(("", [])) as (address, known["6200"]):
            for number, language, command, block in found:
                wrong += [f"{page}:{number}: {command}\n    {it}" for it in faults(language, command, block, known, address)]
        checked += len(found)
    print(*wrong, f"examples: {checked} lines, {len(wrong)} wrong", sep="\n")
    return bool(wrong) or checked < 100


sys.exit(main())
