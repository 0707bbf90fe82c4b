//go:build sampled && libfabric

package main

// This file is only in the library that `make profile` samples.

import _ "github.com/funet/funet/tests/sampled"
