package harness

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Lanes is how many destinations the contenders are set up with: path /0 goes
// to the first, and so on.
type Lanes int

// The versions of the peers, as their modules name them.
const (
	BenthosVersion = "4.60.0"
	RiverVersion   = "0.51.2"
)

// Contenders returns every contender for a number of destinations. bin is where
// their binaries were built.
func Contenders(bin string, lanes Lanes) []Contender {
	return []Contender{
		{Name: "pawl", Command: pawl(filepath.Join(bin, "pawl"), lanes, afterDelivery)},
		{Name: "benthos", Version: BenthosVersion, Command: benthos(filepath.Join(bin, "benthos"), lanes, afterDelivery)},
		{Name: "nginx", Command: nginx(lanes)},
		{Name: "reverseproxy", Command: func(_, listen, sink string) (*exec.Cmd, error) {
			return exec.Command(filepath.Join(bin, "reverseproxy"), listen, sink), nil
		}},
	}
}

// StoredContenders are those of an intake for one destination: pawl answers once
// a message is durable, Benthos after delivery, and Benthos once a message is in
// its memory buffer, which a crash empties.
func StoredContenders(bin string) []Contender {
	return []Contender{
		{Name: "pawl", Command: pawl(filepath.Join(bin, "pawl"), 1, onceStored)},
		{Name: "benthos", Version: BenthosVersion, Command: benthos(filepath.Join(bin, "benthos"), 1, afterDelivery)},
		{Name: "benthos-memory", Version: BenthosVersion, Command: benthos(filepath.Join(bin, "benthos"), 1, onceStored)},
	}
}

// answer is when a caller is answered.
type answer string

const (
	afterDelivery answer = "delivered"
	onceStored    answer = "stored"
)

func write(dir, name, text string) (string, error) {
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// pawl has everything on: breaker, metrics, dead letters, joining.
func pawl(binary string, lanes Lanes, when answer) func(dir, listen, sink string) (*exec.Cmd, error) {
	return func(dir, listen, sink string) (*exec.Cmd, error) {
		var b strings.Builder
		ack := ""
		if when == onceStored {
			b.WriteString("jobs: {}\n")
			ack = ", ack: stored"
		}
		b.WriteString("sources:\n")
		for i := range lanes {
			fmt.Fprintf(&b, "  - { name: in%d, type: http, listen: %q, path: /%d%s }\n", i, listen, i, ack)
		}
		b.WriteString("routes:\n")
		for i := range lanes {
			fmt.Fprintf(&b, "  - { name: r%d, from: [in%d], to: [out%d] }\n", i, i, i)
		}
		b.WriteString("destinations:\n")
		for i := range lanes {
			fmt.Fprintf(&b, "  - { name: out%d, type: http, url: \"http://%s/%d\" }\n", i, sink, i)
		}
		return pawlRun(binary, dir, b.String())
	}
}

// pawlRun is pawl with the configuration, which lacks only what has nothing to do
// with messages.
func pawlRun(binary, dir, config string) (*exec.Cmd, error) {
	admin, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	if _, err := write(dir, adminFile, admin); err != nil {
		return nil, err
	}
	path, err := write(dir, pawlFile, fmt.Sprintf("relay: bench\nstate: %s\nhttp: { listen: %q }\nlog: { level: warn }\n%sdead_letter: { type: file }\n",
		filepath.Join(dir, "state"), admin, config))
	return exec.Command(binary, "run", "-c", path), err
}

// pawlFile is the configuration of pawl in its folder.
const pawlFile = "pawl.yaml"

// pawlLetters returns the ids of the dead letters that pawl left in its folder.
func pawlLetters(binary string) func(ctx context.Context, dir string) (map[string]struct{}, error) {
	return func(ctx context.Context, dir string) (map[string]struct{}, error) {
		out, err := exec.CommandContext(ctx, binary, "dlq", "list", "--json", "-c", filepath.Join(dir, pawlFile)).Output()
		if err != nil {
			return nil, fmt.Errorf("dlq list: %w", err)
		}
		ids := map[string]struct{}{}
		for line := range bytes.Lines(out) {
			var letter struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(line, &letter); err != nil {
				return nil, fmt.Errorf("dlq list: %w", err)
			}
			ids[letter.ID] = struct{}{}
		}
		return ids, nil
	}
}

// nginx proxies with kept-alive connections to the sink.
func nginx(lanes Lanes) func(dir, listen, sink string) (*exec.Cmd, error) {
	return func(dir, listen, sink string) (*exec.Cmd, error) {
		path, err := write(dir, "nginx.conf", fmt.Sprintf(`daemon off;
worker_processes 2;
pid %[1]s/nginx.pid;
error_log stderr error;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  keepalive_requests 100000000;
  upstream sink { server %[3]s; keepalive 256; keepalive_requests 100000000; }
  server {
    listen %[2]s;
    location / { proxy_pass http://sink; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_read_timeout 5s; }
  }
}
`, dir, listen, sink))
		return exec.Command("nginx", "-p", dir, "-c", path), err
	}
}

// benthos acks as pawl does, with its nearest settings: an http_server input, a
// memory buffer where it answers once stored, a switch by path, http_client
// outputs.
func benthos(binary string, lanes Lanes, when answer) func(dir, listen, sink string) (*exec.Cmd, error) {
	return func(dir, listen, sink string) (*exec.Cmd, error) {
		var b strings.Builder
		if when == onceStored {
			b.WriteString("buffer: { memory: {} }\n")
		}
		b.WriteString("output:\n")
		if lanes == 1 {
			fmt.Fprintf(&b, "  %s\n", benthosClient(sink+"/0", benthosLike))
		} else {
			b.WriteString("  switch:\n    cases:\n")
			for i := range lanes {
				fmt.Fprintf(&b, "      - check: '@lane == \"%d\"'\n        output: { %s }\n", i, benthosClient(fmt.Sprintf("%s/%d", sink, i), benthosLike))
			}
		}
		return benthosRun(binary, dir, listen, b.String())
	}
}

// benthosLike are the settings of an http_client output that are as pawl's
// defaults: 64 at once, five tries, 5 s for each.
const benthosLike = "max_in_flight: 64, retries: 4, retry_period: 200ms, max_retry_backoff: 10s, backoff_on: [ 429, 503 ]"

// benthosClient is an http_client output as a member of a YAML flow mapping.
func benthosClient(to, settings string) string {
	return fmt.Sprintf("http_client: { url: \"http://%s\", verb: POST, timeout: 5s, %s }", to, settings)
}

// benthosRun is Benthos with the output, behind an HTTP input that answers after
// delivery.
func benthosRun(binary, dir, listen, output string) (*exec.Cmd, error) {
	path, err := write(dir, "benthos.yaml", fmt.Sprintf(`http: { enabled: false }
logger: { level: ERROR }
input:
  http_server:
    address: %q
    path: /{lane}
    allowed_verbs: [ POST ]
    timeout: 25s
    sync_response: { status: "200" }
%s`, listen, output))
	return exec.Command(binary, "-c", path), err
}
