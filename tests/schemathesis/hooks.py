"""Keeps generated calls harmless, and lets some of them meet something that is there.

What schemathesis makes up is sent as it is, with few exceptions. Programs and directories that it
makes up are replaced by harmless ones in the directory that CCMUX_TEST_DIR names, where they would
have been accepted at all; names are now and then replaced by those of a session and a pane that
exist; and what calls have created is purged after a while, so that thousands of them leave no
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

CHANCE = random.Random(1)
CREATED = deque()
CREATED_AT_MOST = 12


def harmless(wish):
    """An agent of a run, or a pane, that does nothing and nowhere else."""
    if not isinstance(wish, dict):
        return
    command = wish.get("command")
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        wish["command"] = ["true"]
    if isinstance(wish.get("cwd"), str):
        wish["cwd"] = DIR


def ends(case):
    """Whether a call would take away what others are to meet."""
    return case.method == "DELETE" or case.path.endswith(("/stop", "/restore"))


def is_met(name):
    """Whether a name, or the beginning of an id, is of what others are to meet."""
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
    if ends(case) and is_met(named.get("id")):
        # It has read the id in a list.
        named["id"] = "somebody-else"
    if isinstance(named.get("id"), str) and not ends(case) and CHANCE.random() < 0.5:
        if "/panes/{id}" in case.path:
            named["id"] = PANE
        elif "/sessions/{id}" in case.path:
            named["id"] = SESSION


@schemathesis.hook
def after_call(context, case, response):
    if case.method != "POST" or response.status_code != 201:
        return
    made = response.json()
    session = made.get("sessionId") or (made.get("session") or {}).get("id")
    if session is None or session == SESSION or session in CREATED:
        return
    CREATED.append(session)
    while len(CREATED) > CREATED_AT_MOST:
        requests.delete(f"{URL}/v1/sessions/{CREATED.popleft()}", headers=TOKEN, timeout=120)
