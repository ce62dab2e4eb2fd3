// Package http is the HTTP kind: a source that listens for requests and
// destinations that send them. In this package the name http is the package
// itself; net/http is nethttp.
//
// # The source
//
// A request is answered when its message is settled, with the status of
// relay.md §6. Where that takes longer than ack_timeout the caller gets a 504
// and the message goes on; see exchange for who answers when.
//
// The order of the checks is the order of their cost: method, the proof in the
// header, encoding and type, announced length, the body as it arrives, the
// signature over its bytes as they came; only then is it unpacked and read.
//
// The id is the caller's own, verbatim behind key_prefix: of id_header where
// that is set; else of what the preset's sender names (X-GitHub-Delivery,
// X-Shopify-Webhook-Id, the member id of Stripe's body, event_id of Slack's);
// else of webhook-id where that is signed; else of Idempotency-Key, then
// webhook-id. Without any it is a ULID, which never repeats.
//
// The caller is one for each bearer token, for the user of basic
// authentication, for a client certificate's key; all secrets of a signature
// are one caller's.
//
// Headers are kept but for those of the connection, proxies, Authorization,
// Cookie, the proof, content type and content encoding. Values that are not
// UTF-8 are read as ISO-8859-1. A urlencoded form becomes a JSON object with
// the content type application/json, and form is true in the attribute http,
// which also has method, path, query and remote.
//
// # The destinations
//
// Each attempt is one request over package egress. URL and headers may hold
// expressions: in a path their values are escaped as one part of it, in a query
// as one value, and none reaches the scheme or the host. A value that would be
// read as another path (empty, . or ..) or that no header can hold is a
// permanent failure of the message with the tag transform.
//
// A batch is one request, NDJSON or a JSON array. Every attempt carries the ids
// of its messages: plain items in the header Pawl-Batch-Ids, envelopes in
// themselves. How the endpoint can answer for each message stands in
// batch_answer.go; a health check in check.go.
package http
