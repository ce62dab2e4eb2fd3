// Package setting holds the types of single values in a configuration:
// durations, sizes, ratios, secrets and a listener's TLS files. Each reads
// itself from YAML with an error that says what it would have taken. Plain
// values, safe for concurrent use once read.
package setting
