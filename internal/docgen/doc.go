// Command docgen writes the reference in docs/reference from the code itself:
// the keys of the configuration, its JSON Schema, the commands, the metrics and
// the job API.
//
//	go generate ./internal/docgen
//
// The same code always makes the same bytes. A test fails while a committed
// file is not what the code makes.
package main

//go:generate go run . ../../docs/reference
