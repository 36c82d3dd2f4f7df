"""Makes generated requests harmless, and directs some of them at an existing pane and session.

Generated requests are sent unchanged, with these exceptions: valid programs and directories are
replaced by harmless ones in CCMUX_TEST_DIR; some names are replaced by those of an existing session
and pane; and created sessions are purged after a while, so that thousands of requests leave no
processes behind.
"""

import os
import random
from collections import deque

import requests
import schemathesis

URL = os.environ["CCMUX_URL"]
TOKEN = {"authorization": "Bearer " + os.environ["CCMUX_TOKEN"]}
DIR = os.environ["CCMUX_TEST_DIR"]
PANE = os.environ["CCMUX_TEST_PANE"]
SESSION = os.environ["CCMUX_TEST_SESSION"]

RANDOM = random.Random(1)
CREATED = deque()
MAX_CREATED = 12


def harmless(request):
    """Replaces the command and directory of an agent or pane by harmless ones."""
    if not isinstance(request, dict):
        return
    command = request.get("command")
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        request["command"] = ["true"]
    if isinstance(request.get("cwd"), str):
        request["cwd"] = DIR


def removes(case):
    """Returns whether a request would remove the pane or session that others use."""
    return case.method == "DELETE" or case.path.endswith(("/stop", "/restore"))


def is_used(name):
    """Returns whether a name or id prefix is of the pane or session that others use."""
    names = (PANE, SESSION, "ccmux-" + SESSION[:8])
    return isinstance(name, str) and any(known.startswith(name) for known in names)


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if isinstance(body, dict):
        harmless(body)
        for agent in body["agents"] if isinstance(body.get("agents"), list) else []:
            harmless(agent)
    named = case.path_parameters or {}
    if removes(case) and is_used(named.get("id")):
        # The id comes from an earlier response.
        named["id"] = "unknown"
    if isinstance(named.get("id"), str) and not removes(case) and RANDOM.random() < 0.5:
        if "/panes/{id}" in case.path:
            named["id"] = PANE
        elif "/sessions/{id}" in case.path:
            named["id"] = SESSION


@schemathesis.hook
def after_call(context, case, response):
    if case.method != "POST" or response.status_code != 201:
        return
    created = response.json()
    session = created.get("sessionId") or (created.get("session") or {}).get("id")
    if session is None or session == SESSION or session in CREATED:
        return
    CREATED.append(session)
    while len(CREATED) > MAX_CREATED:
        requests.delete(f"{URL}/v1/sessions/{CREATED.popleft()}", headers=TOKEN, timeout=120)
