package usage

// This file is the flag --version.

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by make, with -ldflags: the tag, or the number of commits.
var version string

// Versioned gives the command --version, which prints one line: name and version, compiler, and
// machine. A program that `go build` or `go install` built has the module's version, or the commit.
func Versioned(c *cobra.Command) {
	info, _ := debug.ReadBuildInfo()
	c.Version = cmp.Or(version, builtFrom(info))
	c.SetVersionTemplate(fmt.Sprintf("{{.Name}} {{.Version}} (%s, %s/%s)\n", runtime.Version(), runtime.GOOS,
		runtime.GOARCH))
}

func builtFrom(info *debug.BuildInfo) string {
	if info == nil {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "commit " + s.Value
		}
	}
	return "unknown"
}
