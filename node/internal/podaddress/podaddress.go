// Package podaddress answers "to which address of a Pod may a node agent connect?"
package podaddress

import (
	"errors"
	"net/netip"
)

// Parse returns the address of a Pod with the given status.podIP. An agent can reach addresses that the author of a
// Pod must not reach. So Parse returns an error for addresses that no Pod can have, such as the Node's loopback
// address and the metadata service of a cloud. Parse is pure and safe for concurrent use.
func Parse(podIP string) (netip.Addr, error) {
	address, err := netip.ParseAddr(podIP)
	if err != nil {
		return netip.Addr{}, errors.New("the Pod has no IP address")
	}
	switch address = address.Unmap(); {
	case address.IsUnspecified(), address.IsLoopback(), address.IsMulticast(), address.IsLinkLocalUnicast(), address.Zone() != "":
		return netip.Addr{}, errors.New("no Pod has such an address")
	}
	return address, nil
}
