// Package ingress shares incoming HTTP listeners among sources: the Hub opens
// an address with the first path mounted on it, hands each request to the
// handler of its path, and closes the address after the last path is gone and
// what was in flight is answered.
//
// Paths are compared with the decoded path of the request, without cleaning
// it. A path that ends in a slash serves everything below it, any other only
// itself; an exact path wins over one that ends in a slash, and of those the
// longest wins. So "/" takes what no other path takes. Any other request is
// answered 404 with a problem document.
//
// Callers are bounded before a handler sees them: the constants say by what.
package ingress
