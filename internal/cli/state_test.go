package cli

import (
	"strings"
	"testing"
)

// Would catch: --state that takes the lock of one folder and lists the dead
// letters of another.
func TestStateIsTheWholeFolder(t *testing.T) {
	t.Setenv("PAWL_TEST_STATE", t.TempDir())
	code, out, errOut := call(t, "", "dlq", "list", "-c", "testdata/shop.yaml", "--state", letters(t))
	if code != 0 || !strings.Contains(out, "order-7") {
		t.Errorf("%d\n%s%s", code, out, errOut)
	}
}
