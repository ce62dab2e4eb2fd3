// Package httpapi is how programs create jobs and workers work them: HTTP and
// JSON below /v3, described by the OpenAPI document that it serves.
//
// Every call is a row of one table (calls.go): its path, who may make it, what it
// takes and answers. The routes, the checks of keys and scopes, the OpenAPI
// document and the reference's table of scopes all come from that table, so
// none can say something else.
//
//	request ─▶ route ─▶ key ─▶ scope ─▶ JSON, read once and strictly (wirejson)
//	                                        │
//	answer  ◀─ written by append ◀─ jobserver ─▶ store
//
// What a caller did wrong is a problem document (RFC 9457) that names every
// fault by its JSON pointer; what the server can't do now is a 503 that says
// when to come back. The types of wire.go are the bodies as they stand on the
// wire: clients decode into them.
package httpapi
