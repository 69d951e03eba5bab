#!/bin/bash
right=0
named=0
[ "$(cat /app/greeting.txt)" = "$WANTED" ] && right=1
ls /app | grep -q greeting.txt && named=1
echo "{\"reward\": $right, \"named\": $named}" > /logs/verifier/reward.json
