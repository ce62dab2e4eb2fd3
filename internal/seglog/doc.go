// Package seglog is an append-only log of lines, in segments of a folder or in
// one named file, for records that must not be lost: dead letters, their
// marks, file destinations.
//
// # What Append promises
//
// Append returns nil once the record is on the disk (fsync), and a record whose
// Append failed is not visible. Appends share an fsync: what gathered while the
// last one ran is the next group; there is no timer. Only what was synced is
// shown to Scan. A folder's log writes only to segments that it made itself,
// never to those of an earlier process.
//
// # What goes wrong, and what happens
//
//   - A short write or a full disk: the group is cut away again and every
//     caller of it gets the error. Appends work again when space returns.
//   - An fsync error: nobody knows what is on the disk, and a second fsync may
//     claim success for pages that the system threw away. The segment is
//     condemned: cut back to its last synced end, never written again, and the
//     group is written once more to a new one. Only when that fails too do the
//     callers get the error. If the cut fails as well, a record may be found
//     twice after a restart.
//   - A crash: at most the unsynced end of the last segment is torn. Open cuts
//     it off and keeps the bytes beside it, in a file that ends in .torn. A
//     last line that is a whole JSON object only lost its newline and gets it
//     back.
//   - A damaged line in the middle: Scan reports it and goes on.
//   - The file was renamed, removed or cut under us (logrotate): noticed before
//     each group, which then goes to a fresh file of the same name.
//
// Nothing that is found in the files stops Open.
package seglog
