package app

// Catches: a lever whose hand a reload forgets while it holds, so that status
// shows a paused destination as if it worked; and a hand that outlives its lever.

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestAReloadKeepsWhoLeveredWhat: of a source, a destination and a member, as long
// as it is there.
func TestAReloadKeepsWhoLeveredWhat(t *testing.T) {
	w := newWorld(t)
	ep := newEndpoint(t)
	group := func(members string) string {
		return w.conf(ep.URL, "") + "  - { name: pair, type: group, health_check: { path: / }, members: [ " + members + " ] }\n"
	}
	east, west := fmt.Sprintf("{ name: east, type: http, url: %q }", ep.URL), fmt.Sprintf("{ type: http, url: %q }", ep.URL+"/west")
	w.write(group(east + ", " + west))
	a := w.start()
	defer a.end()
	eventually(t, "it runs", func() bool { code, _ := w.send("127.0.0.1:1", "m"); return code == http.StatusOK })
	ask := func(method, path, body string) string {
		code, text := w.ask(method, "127.0.0.1:2", path, "", body)
		if code != http.StatusOK {
			t.Fatalf("%s %s: %d %s", path, body, code, text)
		}
		return text
	}
	for _, name := range []string{"web", "ep", "east", "pair/2"} {
		ask(http.MethodPost, "/v3/pause", fmt.Sprintf(`{"name":%q,"by":"ada"}`, name))
	}
	paused := func() int { return strings.Count(ask(http.MethodGet, "/v3/status", ""), `"by":"ada"`) }
	if n := paused(); n != 4 {
		t.Fatalf("%d of 4 are paused by ada", n)
	}
	if _, err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := paused(); n != 4 {
		t.Errorf("after a reload status knows of %d of 4 who paused it", n)
	}
	w.write(group(east))
	if _, err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a.levers.Paused("pair/2") || !a.levers.Paused("east") {
		t.Error("the lever of a member that went stays, or that of one that stays went")
	}
}

// TestALeverThatHoldsIsKnown: of a name that goes and comes back while its last
// message is on its way, so that its lever never let go; not of one that comes
// back later, to which nobody has done anything.
func TestALeverThatHoldsIsKnown(t *testing.T) {
	t.Run("in time", func(t *testing.T) { leaveAndComeBack(t, false) })
	t.Run("later", func(t *testing.T) { leaveAndComeBack(t, true) })
}

func leaveAndComeBack(t *testing.T, later bool) {
	w := newWorld(t)
	ep := newEndpoint(t)
	both := w.conf(ep.URL, `  - { name: extra, type: http, listen: "127.0.0.1:3" }`) + fmt.Sprintf("  - { name: other, type: http, url: %q }\n", ep.URL)
	w.write(both)
	a := w.start()
	defer a.end()
	eventually(t, "it runs", func() bool { code, _ := w.send("127.0.0.1:1", "m"); return code == http.StatusOK })
	release := ep.hold()
	defer release()
	begun := make(chan int, 1)
	go func() { code, _ := w.send("127.0.0.1:1", "held"); begun <- code }()
	eventually(t, "the message is at the endpoint", func() bool { return ep.count() == 2 })
	for _, name := range []string{"web", "ep"} {
		if code, text := w.ask(http.MethodPost, "127.0.0.1:2", "/v3/pause", "", fmt.Sprintf(`{"name":%q,"by":"ada"}`, name)); code != http.StatusOK {
			t.Fatalf("pausing %s: %d %s", name, code, text)
		}
	}
	without := strings.NewReplacer("from: [web], to: [ep]", "from: [extra], to: [other]", `  - { name: web, type: http, listen: "127.0.0.1:1" }`+"\n", "")
	gone := without.Replace(both)
	before, rest, _ := strings.Cut(gone, "  - { name: ep,")
	_, rest, _ = strings.Cut(rest, "\n")
	gone = before + rest
	w.write(gone)
	if _, err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if later {
		release()
		eventually(t, "the old configuration is over", func() bool {
			return a.engine.Relay().Status().Draining == 0 && len(a.engine.Fleet().Status()) == 1
		})
	}
	w.write(both)
	if _, err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	paused := 0
	for _, l := range a.engine.Fleet().Status() {
		if l.Paused {
			paused++
		}
	}
	for _, s := range a.engine.Relay().Status().Sources {
		if s.Paused {
			paused++
		}
	}
	_, text := w.ask(http.MethodGet, "127.0.0.1:2", "/v3/status", "", "")
	if n := strings.Count(text, `"by":"ada"`); n != paused || !later && n != 2 {
		t.Errorf("%d are paused, and status knows of %d: %s", paused, n, text)
	}
	if a.levers.Paused("ep") == later {
		t.Errorf("the lever of the destination stands: %v", !later)
	}
	release()
	if code := <-begun; code != http.StatusOK {
		t.Errorf("the message that was held: %d", code)
	}
}
