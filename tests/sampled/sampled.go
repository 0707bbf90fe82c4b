// Package sampled makes a program write down where it spends its time, for the profiles that funet
// and funid are built with (make profile). A program has it only if it is built with the tag of the
// same name; then it does nothing unless FUNET_SAMPLES names a folder.
//
// A profile is written once a second, and begun anew, because a program may end at any time, by a
// signal too: what is lost is less than a second. The files are PROGRAM-PROCESS-NUMBER.pb.gz, in
// the format of pprof, and appear when they are whole; make profile merges them.
package sampled

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"
)

// each is how long a file's samples are taken for.
const each = time.Second

func init() {
	if folder := os.Getenv("FUNET_SAMPLES"); folder != "" {
		go sample(folder)
	}
}

// sample goes on until the program ends, or a file cannot be written, which it says.
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
