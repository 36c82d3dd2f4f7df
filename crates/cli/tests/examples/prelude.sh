# Sourced before every example: puts the names that the examples use into place.

# Removes all sessions, with unsaved work.
purge_all() {
    for session in $(ccmux ls --json | jq -r '.sessions[].id'); do
        said=$(ccmux purge "$session" --yes --now --grace 0.2 2>&1) && continue
        token=$(echo "$said" | grep -o -- '--discard [0-9a-f]*' | head -1 | cut -d' ' -f2)
        ccmux purge "$session" --yes --now --discard "$token" >/dev/null
    done
}

# Makes sure that session web has these panes, and that they run.
fixture() {
    wanted='build dev1 dev2 qa qa1 reviewer server'
    found=$(ccmux ls --json | jq -r '[.sessions[].panes[] | select(.state == "running") | .name] | sort | join(" ")')
    [ "$found" != "$wanted" ] || return 0
    purge_all
    for name in build dev1 dev2; do
        ccmux new -d --session web -n $name --role dev -- sh >/dev/null
    done
    ccmux new -d --session web -n server -- sh -c 'echo listening on port 80; exec cat' >/dev/null
    ccmux new -d --session web -n qa --role qa -- sh >/dev/null
    ccmux new -d --session web -n qa1 --role qa -- sh >/dev/null
    ccmux new -d --session web -n reviewer -- sh >/dev/null
    ccmux new -d --session web -n tests -- true >/dev/null
}

# Makes session web a legacy session with one pane in a project.
legacy() {
    purge_all
    ccmux new -d --session web --mode legacy -n dev1 --cwd ~/my-project -- sh >/dev/null
}

# Makes dev1 a frozen pane.
frozen() {
    purge_all
    ccmux new -d --session web -n dev1 --workspace empty --limit disk=1M,policy=freeze -- \
        sh -c 'head -c 4000000 /dev/zero >large; exec cat' >/dev/null
    for try in $(seq 300); do
        [ "$(ccmux show dev1 --json | jq .pane.frozen)" = null ] || return 0
        sleep 0.1
    done
    echo 'dev1 was not frozen' >&2
    return 1
}

# Makes web a team with managers.
units() {
    purge_all
    ccmux up --preset units --agent shell --name web >/dev/null 2>&1
}

# Makes web a team.
team() {
    purge_all
    ccmux up --preset seven --agent shell --name web >/dev/null 2>&1
}

# Sets TOKEN to the token of the unsaved work of dev1.
unsaved_work() {
    purge_all
    (cd ~/my-project && ccmux new -d --session web -n dev1 --workspace worktree -- sh) >/dev/null 2>&1
    echo new >"$(ccmux show dev1 --json | jq -r .pane.workspace)/new.txt"
    TOKEN=$(ccmux close dev1 --json 2>&1 | grep -o -- '--discard [0-9a-f]*' | head -1 | cut -d' ' -f2)
}
