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
	// must agree on having it. A path that is taken is an error, but for the
	// same owner: the newer mount then takes the path over, so that a reload
	// never has a moment without it.
	Mount(address string, tls *tls.Config, owner, path string, h http.Handler) (unmount func(), err error)
}
