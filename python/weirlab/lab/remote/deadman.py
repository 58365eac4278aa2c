"""The dead man's switch: a process on the device that restores it unless Weir comes back in time.

Its folder on the device has the process's number (``pid``), the time at which it acts (``due``), how to
``restore``, how to ``load`` rules, and whose it is (``owner``). Whoever acts, changes ``due`` or begins to
load holds the folder ``lock``. Afterwards the whole folder is gone, unless restoring failed: then ``log``
says why.

The process sleeps until ``due`` and then looks whether that has moved; in between it only wakes up when
``due`` is moved forward. Time is that since the device started where Linux tells it, so that a corrected
clock fires nothing.

A command that loads rules outlives the login that started it. So its number is in ``loading``, and whoever
restores ends it first: it would set rules that nobody removes.
"""

from __future__ import annotations

from typing import Final

FOLDER: Final = "/var/run/weir-device"
"""On the device; exists on Linux, OpenWrt and the BSDs, and is empty after a restart."""

GONE, BUSY, FAILED, KILLED = 20, 21, 22, 23
"""Exit codes of the scripts: the folder is not ours (any more); another one exists; something failed; the
process of the switch is gone, and has not acted."""

# cat says why a file cannot be written, and the echo of some shells does not. A dead process whose parent
# does not wait for it answers to kill, and so does another one that got its number: ours are in the folder.
_FUNCTIONS: Final = f"""\
d={FOLDER}
put() {{ echo "$1" | cat >"$2"; }}
alive() {{
  kill -0 "$1" 2>/dev/null && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null || return 1
  [ ! -d "/proc/$1" ] || [ "/proc/$1/cwd" -ef . ]
}}
now() {{ cut -d. -f1 /proc/uptime 2>/dev/null || date +%s; }}
lock() {{
  tries=0
  until mkdir "$d/lock" 2>/dev/null; do
    tries=$((tries + 1))
    [ -d "$d" ] && [ "$tries" -lt "$1" ] || return 1
    sleep 1
  done
}}
stop_load() {{
  [ -s loading ] || return 0
  load=$(cat loading)
  # Its absence tells the script that waits.
  rm -f loading
  alive "$load" || return 0
  kill "$load" 2>/dev/null
  tries=0
  while alive "$load"; do
    tries=$((tries + 1))
    [ "$tries" -lt 50 ] || kill -9 "$load" 2>/dev/null
    [ "$tries" -lt 60 ] || break
    sleep 0.1 2>/dev/null || sleep 1
  done
}}
"""

WATCH: Final = f"""\
#!/bin/sh
# Written by Weir: removes its rules from this device if it does not come back in time.
{_FUNCTIONS}
trap 'kill "$nap" 2>/dev/null; exit 0' TERM
trap 'kill "$nap" 2>/dev/null' USR1
trap '' HUP INT
cd "$d" || exit 1
put $$ pid.new && mv pid.new pid || exit 1
while :; do
  left=$(($(cat due) - $(now)))
  if [ "$left" -gt 0 ]; then
    sleep "$left" &
    nap=$!
    wait "$nap"
    continue
  fi
  # A lock that is still held after this was left by a command that was killed.
  lock 5
  [ $(($(cat due) - $(now))) -le 0 ] && break
  rmdir lock
done
logger -t weir "Weir did not come back: restoring the rules" 2>/dev/null
stop_load
left=20
# What it says goes to no file: a full or read-only disk must not keep it from restoring.
until said=$(sh ./restore 2>&1); do
  put "$said" log
  logger -t weir "restoring the rules failed: $said" 2>/dev/null
  left=$((left - 1))
  [ "$left" -gt 0 ] || exit 1
  sleep 10 &
  nap=$!
  wait "$nap"
done
cd / && rm -rf "$d"
"""

BEGIN: Final = f"""\
{_FUNCTIONS}
umask 077
if ! mkdir "$d" 2>/dev/null; then
  [ -d "$d" ] || {{ mkdir "$d"; exit {FAILED}; }}
  cat "$d/owner" 2>/dev/null
  [ -e "$d/due" ] && echo $(($(cat "$d/due") - $(now)))
  exit {BUSY}
fi
put "$1" "$d/owner" || {{ rm -rf "$d"; exit {FAILED}; }}
"""
"""Takes the folder for the owner ``$1``; if that is taken, prints its owner and the seconds until ``due``."""

ARM: Final = f"""\
{_FUNCTIONS}
cd "$d" || exit {GONE}
put $(($(now) + $1)) due || exit {FAILED}
begin() {{
  "$@" sh ./watch </dev/null >/dev/null 2>&1 &
  tries=0
  until [ -s pid ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 50 ] && kill -0 $! 2>/dev/null || return 1
    sleep 0.1 2>/dev/null || sleep 1
  done
}}
detach=nohup
command -v setsid >/dev/null && detach=setsid
# OpenWrt has neither. The switch ignores the end of the login by itself.
command -v "$detach" >/dev/null || detach=env
# A scope of its own outlives the login where systemd ends what a login leaves behind.
if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; then
  begin "$detach" systemd-run --scope --quiet --collect && exit 0
fi
begin "$detach" || {{
  # It was due before this noticed its start.
  [ -d "$d" ] || exit {GONE}
  echo "no process can be started that outlives the login" >&2
  exit {FAILED}
}}
"""
"""Starts the switch with ``$1`` seconds."""

LOAD: Final = f"""\
{_FUNCTIONS}
[ "$(cat "$d/owner" 2>/dev/null)" = "$1" ] && cd "$d" && lock 10 || exit {GONE}
shift
# What is started in the background reads nothing, unless it is told what.
exec 3<&0
"$@" <&3 3<&- &
load=$!
put "$load" loading || {{ kill "$load"; rmdir lock; exit {FAILED}; }}
rmdir lock
wait "$load"
code=$?
[ -e loading ] || exit {GONE}
rm -f loading
exit "$code"
"""
"""Runs a command that loads rules, after the owner ``$1``; :data:`END` and the switch can end it."""

MOVE: Final = f"""\
{_FUNCTIONS}
[ "$(cat "$d/owner" 2>/dev/null)" = "$1" ] && cd "$d" || exit {GONE}
lock 10 || {{
  [ -d "$d" ] || exit {GONE}
  alive "$(cat pid)" || exit {KILLED}
  cat log >&2 2>/dev/null
  exit {FAILED}
}}
alive "$(cat pid)" || {{ rmdir lock; exit {KILLED}; }}
before=$(cat due)
due=$(($(now) + $2))
put "$due" due.new && mv due.new due
moved=$?
rmdir lock
[ "$moved" -eq 0 ] || exit {FAILED}
[ "$due" -ge "$before" ] || kill -USR1 "$(cat pid)"
"""
"""Has the switch wait ``$2`` seconds from now, if it is still that of the owner ``$1``."""

END: Final = f"""\
{_FUNCTIONS}
[ "$(cat "$d/owner" 2>/dev/null)" = "$1" ] && cd "$d" || exit {GONE}
# Whoever holds the lock for that long was killed, or cannot restore.
lock 10 || [ -d "$d" ] || exit {GONE}
stop_load
if [ -e restore ]; then
  said=$(sh ./restore 2>&1) || {{ echo "$said" >&2; rmdir lock; exit {FAILED}; }}
fi
[ -s pid ] && alive "$(cat pid)" && kill "$(cat pid)"
cd / && rm -rf "$d"
"""
"""Restores and disarms, for the owner ``$1``. The folder of another one, or none, is left alone."""
