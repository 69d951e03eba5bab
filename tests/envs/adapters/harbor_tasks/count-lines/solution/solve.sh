#!/bin/bash
wc -l < /data/log.txt > answer.txt
