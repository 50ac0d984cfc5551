#!/bin/sh
# Every second, by the schedule in settings.job.
date -u +%H:%M:%S >> "$WEBJOBS_DATA_PATH/beats"
