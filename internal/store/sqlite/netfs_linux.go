package sqlite

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// networkMagic are the file systems whose files live on another machine, or on
// the other side of a virtual one: SQLite's locks and its shared memory are not
// kept there as they must be.
var networkMagic = map[uint32]string{
	unix.NFS_SUPER_MAGIC:   "NFS",
	unix.SMB_SUPER_MAGIC:   "SMB",
	unix.SMB2_SUPER_MAGIC:  "SMB",
	unix.CIFS_SUPER_MAGIC:  "SMB (CIFS)",
	unix.AFS_SUPER_MAGIC:   "AFS",
	unix.AFS_FS_MAGIC:      "AFS",
	unix.CODA_SUPER_MAGIC:  "Coda",
	unix.CEPH_SUPER_MAGIC:  "Ceph",
	unix.V9FS_MAGIC:        "9p",
	unix.NCP_SUPER_MAGIC:   "NCP",
	unix.OCFS2_SUPER_MAGIC: "OCFS2",
	0x01161970:             "GFS2",
	0x0bd00bd0:             "Lustre",
	0x47504653:             "GPFS",
	0x19830326:             "BeeGFS",
}

// localFUSE are the kinds of FUSE that keep files on a disk of this machine.
// Whatever else runs on FUSE may be sshfs, s3fs, a cluster's.
var localFUSE = map[string]bool{
	"fuseblk":             true, // ntfs-3g, exfat
	"fuse.fuse-overlayfs": true, // the root of a rootless container
}

// networkFS names the network file system that a folder is on; "" for a local
// one.
func networkFS(folder string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return "", fmt.Errorf("statfs %s: %w", folder, err)
	}
	magic := uint32(fs.Type) //nolint:gosec // magic numbers have 32 bits; the field's width is the architecture's
	if magic == unix.FUSE_SUPER_MAGIC {
		var st unix.Stat_t
		if err := unix.Stat(folder, &st); err != nil {
			return "", fmt.Errorf("stat %s: %w", folder, err)
		}
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return "FUSE", nil //nolint:nilerr // without /proc its kind is not to be known
		}
		return fuseKind(string(mounts), fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))), nil
	}
	return networkMagic[magic], nil
}

// fuseKind names the kind of FUSE that the device is mounted as, "" for a local
// one, by the lines of /proc/self/mountinfo.
func fuseKind(mountinfo, device string) string {
	lines := bufio.NewScanner(strings.NewReader(mountinfo))
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 3 || fields[2] != device {
			continue
		}
		kind, _, _ := strings.Cut(after, " ")
		if localFUSE[kind] {
			return ""
		}
		return "FUSE (" + kind + ")"
	}
	return "FUSE"
}

// freeBytes is how many bytes a user without privileges can still write on the
// disk of a folder.
func freeBytes(folder string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", folder, err)
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil //nolint:gosec,unconvert // no disk passes 63 bits; the fields' widths are the architecture's
}
