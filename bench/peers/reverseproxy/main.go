// Command reverseproxy is net/http/httputil's reverse proxy with connections
// that are kept: a peer for bench/relay.
package main

import (
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
)

func main() {
	listen, sink := os.Args[1], os.Args[2]
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.MaxIdleConns = 1024, 0
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: sink})
	proxy.Transport = transport
	log.Fatal(http.ListenAndServe(listen, proxy))
}
