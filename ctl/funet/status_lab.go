package main

// This file is `funet status --lab`: the status of every daemon of a lab.

import (
	"errors"
	"fmt"
	"io"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/output"
)

// labStatus is the JSON document of status --lab.
type labStatus struct {
	Lab   string       `json:"lab"`
	Hosts []hostStatus `json:"hosts"`
}

// hostStatus is the daemon of a host of a lab.
type hostStatus struct {
	Host   int            `json:"host"`
	Socket string         `json:"socket"`
	Status *serviceStatus `json:"status,omitempty"` // nil: no answer
	Error  string         `json:"error,omitempty"`  // why there is no answer
}

// statusOfLab asks the daemons, one after the other. An error names those that do not answer; the
// report then has the others. Without a lab there is no report.
func statusOfLab(name string) (output.Report, error) {
	sockets, err := lab.Sockets(name)
	if err != nil {
		return nil, err
	}
	r := &labStatus{Lab: name, Hosts: []hostStatus{}}
	var errs []error
	for host, socket := range sockets {
		h := hostStatus{Host: host, Socket: socket}
		switch s, err := (&service{socket: socket}).status(); {
		case err != nil:
			h.Error = output.OneLine(err)
			errs = append(errs, fmt.Errorf("host %d: %w", host, err))
		default:
			h.Status = s.(*serviceStatus)
		}
		r.Hosts = append(r.Hosts, h)
	}
	return r, errors.Join(errs...)
}

// WriteTable writes the status of each daemon, one after the other.
func (r *labStatus) WriteTable(w io.Writer) error {
	for i, h := range r.Hosts {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "host %d of lab %s, %s\n", h.Host, r.Lab, h.Socket)
		if h.Status == nil {
			fmt.Fprintf(w, "  %s\n", h.Error)
			continue
		}
		if err := h.Status.WriteTable(w); err != nil {
			return err
		}
	}
	return nil
}
