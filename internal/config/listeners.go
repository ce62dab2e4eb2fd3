package config

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/internal/setting"
)

// listener is an address that something listens at.
type listener struct {
	origin
	what       string // for messages
	host, port string
	path       string // "" takes the whole address
	tls        *setting.ServerTLS
}

// checkListeners reports addresses that two want, and paths that two want.
func (l *loader) checkListeners() {
	var all []listener
	add := func(o origin, what, address, path string, tls *setting.ServerTLS) {
		host, port, err := splitAddress(address)
		if err == nil && port != "0" { // 0 is any free port
			all = append(all, listener{o, what, host, port, path, tls})
		}
	}
	if at := l.written.HTTP.Listen; at != "off" {
		f, n := l.key("http")
		if n != nil {
			n = find(n, "listen")
		}
		add(origin{f, n}, "the admin listener (http.listen)", at, "", l.written.HTTP.TLS)
	}
	if at := l.written.Jobs.Listen; l.hasJobs() && at != "" && at != l.written.HTTP.Listen {
		o := l.said["jobs"]
		add(origin{o.file, find(o.node, "listen")}, "the job API (jobs.listen)", at, "", l.written.Jobs.TLS)
	}
	for i := range l.sources {
		s := &l.sources[i]
		if s.settings == nil {
			continue
		}
		address, ok := textField(s.settings, "listen")
		if !ok {
			continue
		}
		path, _ := textField(s.settings, "path")
		var tls *setting.ServerTLS
		if v, ok := lookupField(s.settings, "tls"); ok {
			tls, _ = v.Interface().(*setting.ServerTLS)
		}
		add(origin{s.file, find(s.node, "listen")}, fmt.Sprintf("the source %q", s.Name), address, cmp.Or(path, "/"), tls)
	}
	ports := map[string][]listener{}
	for _, b := range all {
		for _, a := range ports[b.port] {
			if l.checkPair(a, b) == clashing {
				break // one word about each is enough
			}
		}
		ports[b.port] = append(ports[b.port], b)
	}
}

func textField(settings any, key string) (string, bool) {
	v, ok := lookupField(settings, key)
	if !ok {
		return "", false
	}
	s, ok := v.Interface().(string)
	return s, ok && s != ""
}

// clash says whether two listeners can both be there.
type clash string

const (
	peaceful clash = "peaceful"
	clashing clash = "clashing"
)

// checkPair compares two listeners of one port; b is the later one.
func (l *loader) checkPair(a, b listener) clash {
	if a.host != b.host && a.host != "" && b.host != "" {
		return peaceful
	}
	switch {
	case a.host != b.host:
		l.errorf(b.file, b.node, "%s has port %s on every address, %s on one: only one of them can have it",
			wide(a, b).what, b.port, narrow(a, b).what)
	case a.path == "" || b.path == "":
		l.errorf(b.file, b.node, "%s listens at this address already; give one of them another port", a.what)
	case a.path == b.path:
		l.errorf(b.file, b.node, "%s has the path %s at this address already; give one of them another path", a.what, a.path)
	case !sameTLS(a.tls, b.tls):
		l.errorf(b.file, b.node, "%s shares this address and has another tls; say the same for both", a.what)
	default:
		return peaceful
	}
	return clashing
}

func wide(a, b listener) listener {
	if a.host == "" {
		return a
	}
	return b
}

func narrow(a, b listener) listener {
	if a.host == "" {
		return b
	}
	return a
}

func sameTLS(a, b *setting.ServerTLS) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// splitAddress reads host:port. The host is "" for every address.
func splitAddress(address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		return "", "", fmt.Errorf("bad address %q; write it like 127.0.0.1:8080", address)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", "", fmt.Errorf("bad port %q; it is a number from 0 to 65535", port)
	}
	if host == "0.0.0.0" || host == "::" {
		host = ""
	}
	return strings.ToLower(host), strconv.FormatUint(n, 10), nil
}
