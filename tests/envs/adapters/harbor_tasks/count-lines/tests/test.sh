#!/bin/bash
[ "$(cat answer.txt)" = 3 ]
echo $((1 - $?)) > /logs/verifier/reward.txt
