#!/bin/sh
touch planted
