// Package sqlite keeps a store in one SQLite file.
//
// One goroutine writes (writer.go): what gathered while the last commit ran is
// the next transaction. Readers have connections of their own (read.go) and see
// the newest commit. A third goroutine moves the WAL into the file
// (checkpoint.go), so no commit waits for that. The file has one owner
// (lock.go); within it, SQLite's WAL keeps readers and the writer apart.
package sqlite
