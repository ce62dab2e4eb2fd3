package connector

import (
	"crypto/tls"
	"net/http"
)

// Listeners shares incoming HTTP listeners: sources may have one host:port
// with different paths, and a listener whose address stays keeps its socket
// over a reload. Safe for concurrent use.
type Listeners interface {
	// Mount serves path at address with h until the returned function is
	// called, which stops new requests on that path and does not wait for
	// those in flight. The address is opened with the first path and closed
	// after the last. tls is nil for plain HTTP; two mounts at one address
	// must agree on having it. The newest mount of a path serves it: so a reload
	// never has a moment without it, and a source may get another name. That no
	// two sources of one configuration want one path is for its check to see.
	Mount(address string, tls *tls.Config, path string, h http.Handler) (unmount func(), err error)
}
