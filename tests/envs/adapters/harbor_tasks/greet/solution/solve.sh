#!/bin/bash
echo "$GREETING" > /app/greeting.txt
