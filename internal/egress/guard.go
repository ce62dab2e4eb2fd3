package egress

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// guard refuses connections to addresses that are not public: Options.DenyPrivate.
// Any port: what a public endpoint listens on is its own business.
func guard() func(network, address string, c syscall.RawConn) error {
	return ssrf.New(ssrf.WithAnyPort()).Safe
}

// CheckPublic returns an error for a host that DenyPrivate refuses whatever names
// resolve to: a literal address that is not public, or a name below localhost. For
// other names that shows only when they are connected to.
func CheckPublic(host string) error {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return fmt.Errorf("%s is this machine", host)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil //nolint:nilerr // a name
	}
	network := "tcp6"
	if ip.Is4() {
		network = "tcp4"
	}
	if ip.Is4In6() { // the system connects to what is inside
		ip, network = ip.Unmap(), "tcp4"
	}
	if err := guard()(network, net.JoinHostPort(ip.WithZone("").String(), "443"), nil); err != nil {
		return fmt.Errorf("%s is no public address", host)
	}
	return nil
}
