package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// liftLimit gives a process room for its files again.
func liftLimit(t *testing.T, pid int) {
	t.Helper()
	limit := struct{ soft, hard uint64 }{}
	call := func(set, get unsafe.Pointer) {
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE,
			uintptr(set), uintptr(get), 0, 0); errno != 0 {
			t.Fatal(errno)
		}
	}
	call(nil, unsafe.Pointer(&limit))
	limit.soft = limit.hard
	call(unsafe.Pointer(&limit), nil)
}

// TestFullDisk fills the disk under the dead letters: what can't be kept is
// nacked, and goes well again when there is space.
func TestFullDisk(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	s.write(oneEndpoint(ep))
	s.rewrite("dead_letter: { type: file }", "dead_letter: { type: file, retry: { attempts: 2, backoff: 1ms } }")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Less than the block that /readyz tries the disk with.
	cmd := exec.Command(self, "run", "-c", s.path("pawl.yaml"))
	p := s.launchCmd(cmd, envExec+"="+binary, envFsize+"=4000")
	p.waitReady()
	ep.answers(func(string) int { return http.StatusBadRequest })
	acked := map[string]answer{}
	var refused answer
	for i := range 200 {
		key := fmt.Sprintf("m-%04d", i)
		a := send(s.url(), key)
		if a.code != http.StatusOK {
			refused = a
			if a.id != key {
				t.Errorf("a nack names %q, want %s", a.id, key)
			}
			break
		}
		acked[key] = a
	}
	if refused.code != http.StatusServiceUnavailable || refused.retryAfter == "" || len(acked) == 0 {
		t.Fatalf("after %d letters answered %+v, want 503 with Retry-After", len(acked), refused)
	}
	if status, body := s.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "dead letters can't be written") {
		t.Errorf("/readyz on a full disk: %d %s", status, body)
	}
	if status, _ := s.get("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz on a full disk: %d", status)
	}
	if _, body := s.get("/metrics"); !strings.Contains(body, `pawl_dlq_total{outcome="failed",reason="delivery"}`) {
		t.Errorf("no failed letter in the metrics")
	}
	if left := s.letters(); len(left) != len(acked) {
		t.Errorf("%d letters are listed, %d were acknowledged", len(left), len(acked))
	}
	liftLimit(t, cmd.Process.Pid)
	eventually(t, "ready again", func() bool { status, _ := s.get("/readyz"); return status == http.StatusOK })
	die(s, ep, "later", 3)
	for i := range 3 {
		acked[fmt.Sprintf("later-%04d", i)] = answer{code: http.StatusOK, status: "dead_lettered", id: fmt.Sprintf("later-%04d", i)}
	}
	checkAcked(t, s, ep, acked)
	p.kill()
	p = s.start()
	checkAcked(t, s, ep, acked)
	if strings.Contains(p.err.String(), "can't be read") {
		t.Errorf("a half-written letter was left:\n%s", p.err)
	}
	status := decode[struct {
		DeadLetters struct {
			Open    int `json:"open"`
			Damaged int `json:"damaged"`
		} `json:"dead_letters"`
	}](t, s.must(0, "status", "--json"))
	if status.DeadLetters.Damaged != 0 || status.DeadLetters.Open != len(acked) {
		t.Errorf("%+v, want %d open", status, len(acked))
	}
	p.stop()
}

// TestFullDiskJobs fills the disk under the store: what can't be kept is
// answered 503, what was answered is there, and it goes well again when there
// is space.
func TestFullDiskJobs(t *testing.T) {
	s := newSite(t)
	s.writeRaw(jobsConfig)
	s.start().stop() // the store is made
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "run", "-c", s.path("pawl.yaml"))
	p := s.launchCmd(cmd, envExec+"="+binary, envFsize+"=600000")
	p.waitReady()
	api := s.jobs()
	created := map[string]string{}
	refused := 0
	for i := 0; refused == 0; i++ {
		if i == 20_000 {
			t.Fatal("the disk never got full")
		}
		key := fmt.Sprintf("m-%05d", i)
		code, id := api.create("work", key)
		switch code {
		case http.StatusCreated:
			created[key] = id
		case http.StatusServiceUnavailable:
			refused = code
		default:
			t.Fatalf("create %s was answered %d: %s", key, code, id)
		}
	}
	for key, id := range created {
		if code, _ := api.get(id); code != http.StatusOK {
			t.Fatalf("%s was answered %s and can't be read on a full disk: %d", key, id, code)
		}
	}
	liftLimit(t, cmd.Process.Pid)
	eventually(t, "jobs are taken again", func() bool {
		code, id := api.create("work", "later")
		if code == http.StatusCreated || code == http.StatusOK {
			created["later"] = id
		}
		return created["later"] != ""
	})
	p.kill()
	p = s.start()
	for key, id := range created {
		if code, again := api.create("work", key); code != http.StatusOK || again != id {
			t.Errorf("%s was answered %s; a repeat is answered %d %s", key, id, code, again)
		}
	}
	p.stop()
}
