// This file has the number of receive queues whose frames a program on an interface can see.

package xdp

// Queues returns the number of receive queues of an interface in the network namespace of the
// calling thread. These are the queues in use as the driver says (ethtool channels), or 1 if it
// does not say. Errors: ErrNoInterface.
func Queues(ifname string) (int, error) {
	dev, err := findInterface(ifname, 0)
	if err != nil {
		return 0, err
	}
	rx, _, err := channels(dev.Name)
	if err != nil || rx == 0 {
		return 1, nil
	}
	return int(rx), nil
}
