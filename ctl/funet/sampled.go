//go:build sampled

package main

// This file is only in the program that `make profile` samples.

import _ "github.com/funet/funet/tests/sampled"
