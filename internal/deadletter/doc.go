// Package deadletter keeps what could not be delivered, and brings it back.
//
// A Writer takes a dead letter down its write chain: the primary sink with
// retries, then each fallback, and an error when nothing took it, so that the
// caller can nack. A Store is a sink that letters can be listed, replayed and
// purged in. What happens to a letter later (replayed, purged) is a mark beside
// it; no letter is ever rewritten. A crash at any moment therefore loses nothing
// and at worst repeats a delivery. There are two:
//
// Records keeps letters in the job store, beside the jobs.
//
// Files keeps them in append-only NDJSON segments in a folder, one letter a
// line, and the marks in a second log:
//
//	<folder>/000001.ndjson …        the letters, oldest first
//	<folder>/marks/000001.ndjson …  what became of them
//
// It holds an index in memory of about 90 bytes a letter, however large the
// letters are, so that listing, counting and choosing what to replay read only
// the letters that match. The index is rebuilt by one pass over the files when
// the folder is opened.
//
// Everything here is safe for concurrent use. One process has a store open at
// a time; the locks on pawl's state folder and on its store see to that.
package deadletter
