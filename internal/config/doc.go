// Package config reads pawl's configuration: YAML files to one typed,
// resolved and checked tree, with every mistake reported at its file, line and
// column, all of them at once.
//
// # What happens, in order
//
//  1. Every file that was named, and every file they include, is read and
//     parsed into nodes (files.go, parse.go). Bounds: MaxFiles files of at
//     most MaxFileBytes, MaxDepth levels, MaxNodes nodes with aliases counted
//     as often as they are used.
//  2. {{env.NAME}} and {{secrets.NAME}} are replaced in the nodes (expand.go).
//     A node remembers that a secret went into it, so that no message quotes it.
//  3. The nodes are decoded strictly into the written form (written.go,
//     decode.go): the structs whose tags also give the JSON Schema and the
//     reference. Sources and destinations hand the keys that are not common to
//     all to the settings struct of their kind.
//  4. Settings are inherited (delivery.go) and everything is checked across
//     files (check.go, graph.go).
//
// # Paths
//
// A relative path is relative to the folder of the file that says it, `state`
// included, so that a configuration means the same files wherever pawl is
// started from. What is not said (state) is relative to the first file. A
// kind marks its fields that name files with the tag `path:"file"`.
//
// # Struct tags
//
// The decoder, the schema and the reference read the same tags of a struct,
// a kind's settings too:
//
//	yaml:"name"         the key; "-" leaves a field out, ",inline" lifts the keys of a struct
//	doc:"…"             one sentence for the reference and the schema
//	default:"5s"        the default as the reference prints it
//	enum:"a,b"          the only values that are taken
//	path:"file"         a file name, made relative to the file that says it
//	path:"read"         the same, and the file must be readable
//	path:"append"       the same, and it must be a regular file where it is there
//	secret:"never"      {{secrets.NAME}} is refused here
//	jq:"template"       it may hold {{ jq }}, which is compiled to see whether it can be
package config
