//go:build sampled

package main

// This file is in the program that make profile samples, and in no other.

import _ "github.com/funet/funet/tests/sampled"
