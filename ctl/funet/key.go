package main

// This file is `funet key`: it makes the keys by which the cards of hosts authenticate frames.

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/uspace/keyfile"
)

func keyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "key",
		Example: "  funet key new /etc/funet/key; funet key show /etc/funet/key",
		Short:   "Make and tell apart keys, by which hosts authenticate their frames",
	}
	c.AddCommand(keyNewCommand(), keyShowCommand())
	return c
}

func keyNewCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "new FILE",
		Short: "Make a key of 32 random bytes, which all hosts of a cluster get a copy of",
		Long: `Make a key of 32 random bytes in FILE, which nobody but its owner may read (mode 600).
Copy it to all hosts of the cluster as secretly as a password, and name it in the peers file or in
funid's configuration: key: FILE. A file that exists is never overwritten. With - for FILE the
bytes go to standard output, which must not be a terminal.`,
		Example: "  funet key new /etc/funet/key\n  funet key new - | ssh b 'umask 077; cat > /etc/funet/key'",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if args[0] == "-" {
				_, err := keyfile.WriteTo(os.Stdout)
				return err
			}
			k, err := keyfile.New(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%v in %s\n", k, args[0])
			return err
		},
	}
}

func keyShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show FILE",
		Example: "  funet key show /etc/funet/key",
		Short:   "Say which key a file holds, and whether a host would use it",
		Long: `Say which key FILE holds, by a number of 32 bits that is the same on all hosts with the same key and that
says nothing about it. A file that a host would refuse, because others may read it for example, is refused.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			k, err := keyfile.Load(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), k)
			return err
		},
	}
}
