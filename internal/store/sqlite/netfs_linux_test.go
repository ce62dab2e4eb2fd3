// These tests would catch a network file system that is taken for a local one,
// and the other way round.
package sqlite

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFUSEKind(t *testing.T) {
	const mounts = `22 28 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw
81 28 0:45 / /mnt/far rw,nosuid,nodev shared:44 - fuse.sshfs me@far:/srv rw,user_id=0
82 28 8:17 / /mnt/stick rw,relatime shared:45 - fuseblk /dev/sdb1 rw
83 28 0:46 / /var/lib/c rw - fuse.fuse-overlayfs fuse-overlayfs rw
84 28 0:47 / /mnt/odd - name rw - fuse.s3fs s3fs rw
`
	for device, want := range map[string]string{
		"0:45": "FUSE (fuse.sshfs)", "8:17": "", "0:46": "", "0:99": "FUSE", "0:4": "FUSE",
	} {
		if got := fuseKind(mounts, device); got != want {
			t.Errorf("%s: %q, want %q", device, got, want)
		}
	}
}

func TestMagic(t *testing.T) {
	for magic, want := range map[uint32]string{
		0x6969: "NFS", 0xff534d42: "SMB (CIFS)", 0xfe534d42: "SMB", 0x01021997: "9p", 0x00c36400: "Ceph",
		unix.EXT4_SUPER_MAGIC: "", unix.XFS_SUPER_MAGIC: "", unix.BTRFS_SUPER_MAGIC: "", unix.TMPFS_MAGIC: "", unix.OVERLAYFS_SUPER_MAGIC: "",
	} {
		if got := networkMagic[magic]; got != want {
			t.Errorf("%#x: %q, want %q", magic, got, want)
		}
	}
	if kind, err := networkFS(t.TempDir()); err != nil || kind != "" {
		t.Errorf("the folder of tests is %q, %v; want a local one", kind, err)
	}
}

func TestNetworkErrorSaysWhatToDo(t *testing.T) {
	err := error(&NetworkError{"/srv/pawl", "NFS"})
	for _, says := range []string{"/srv/pawl", "NFS", "allow_network_filesystem"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q does not say %q", err, says)
		}
	}
	if _, ok := errors.AsType[*NetworkError](err); !ok {
		t.Error("it can't be asked for")
	}
}
