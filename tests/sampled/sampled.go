// Package sampled writes profiles of a program's processor time. funet and funid are built with
// these profiles (make profile). A program contains this package only if it is built with the tag
// of the same name. Then the package does nothing unless FUNET_SAMPLES names a folder.
//
// It writes a profile once a second and begins a new one, because a program may end at any time,
// even by a signal. So less than a second is lost. The files are PROGRAM-PROCESS-NUMBER.pb.gz, in
// the format of pprof. They appear when they are complete, and make profile merges them.
package sampled

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"
)

// each is how long the samples of a file are taken.
const each = time.Second

func init() {
	if folder := os.Getenv("FUNET_SAMPLES"); folder != "" {
		go sample(folder)
	}
}

// sample writes profiles until the program ends, or until an error, which it prints.
func sample(folder string) {
	for n := 0; ; n++ {
		var b bytes.Buffer
		if err := pprof.StartCPUProfile(&b); err != nil {
			fmt.Fprintln(os.Stderr, "sampling this program:", err)
			return
		}
		time.Sleep(each)
		pprof.StopCPUProfile()
		name := filepath.Join(folder, fmt.Sprintf("%s-%d-%d", filepath.Base(os.Args[0]), os.Getpid(), n))
		err := os.WriteFile(name, b.Bytes(), 0o644)
		if err == nil {
			err = os.Rename(name, name+".pb.gz")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "writing what was sampled of this program:", err)
			return
		}
	}
}
