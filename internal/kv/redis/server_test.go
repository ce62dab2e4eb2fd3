package redis_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawlhq/pawl/internal/kv"
	"github.com/pawlhq/pawl/internal/kv/kvtest"
	"github.com/pawlhq/pawl/internal/kv/redis"
	"github.com/pawlhq/pawl/internal/setting"
)

// own starts a Redis server of the test's own, on a port that {port} stands for
// in its arguments. It is there when an operation of ready fails no more for
// want of a connection.
func own(t *testing.T, ready func(port string) redis.Options, args ...string) (port string) {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		missing(t, "redis-server in the path")
	}
	port = freePort(t)
	all := append([]string{"--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--dir", t.TempDir()}, args...)
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "{port}", port)
	}
	var log bytes.Buffer
	server := exec.Command(binary, all...)
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	s := open(t, ready(port))
	defer s.Close()
	eventually(t, "the server answers", func() bool {
		err := s.Ping(t.Context())
		u, ok := errors.AsType[*kv.Unavailable](err)
		return err == nil || ok && u.Outcome == kv.Refused
	})
	return port
}

// freePort is one with a port 10,000 higher, which a cluster needs.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port < 55_000 {
			return strconv.Itoa(port)
		}
	}
}

func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !yes(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 30 seconds", what)
		}
	}
}

func plain(port string) redis.Options { return redis.Options{URL: at("127.0.0.1:" + port)} }

// admin is a plain client of a test's own server.
func admin(t *testing.T, port string) func(words ...string) {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + port}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return func(words ...string) {
		t.Helper()
		if err := c.Do(t.Context(), c.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
}

// A cluster refuses a script whose keys are not on one node.
func TestContractOnACluster(t *testing.T) {
	port := own(t, func(port string) redis.Options { return redis.Options{URL: at("127.0.0.1:" + port)} },
		"--port", "{port}", "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")
	admin(t, port)("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	s := open(t, plain(port))
	defer s.Close()
	eventually(t, "the cluster is up", func() bool {
		_, err := s.Mark(t.Context(), "up", "one", time.Second)
		return err == nil
	})
	kvtest.Run(t, kvtest.Harness{Open: func(t testing.TB) kv.Store { return open(t, plain(port)) }})
}

// The server forgets scripts when it restarts, and when it is told to.
func TestScriptsAreSentAgain(t *testing.T) {
	port := own(t, plain, "--port", "{port}")
	tell := admin(t, port)
	s := open(t, plain(port))
	defer s.Close()
	for i := range int64(3) {
		got, err := s.Add(t.Context(), "k", []kv.Slot{{Counts: []int64{1}}}, time.Hour)
		if err != nil || got[0].Counts[0] != i+1 {
			t.Fatalf("%v, %v", got, err)
		}
		tell("SCRIPT", "FLUSH")
	}
}

// What a server says that did nothing is told from what it will never do.
func TestServersThatRefuse(t *testing.T) {
	port := own(t, plain, "--port", "{port}")
	tell := admin(t, port)
	s := open(t, plain(port))
	defer s.Close()
	mark := func() error {
		_, err := s.Mark(t.Context(), "k", "one", time.Hour)
		return err
	}
	for _, c := range []struct {
		name      string
		spoil     []string
		mend      []string
		want      kv.Outcome
		wantInErr string
	}{
		{"a replica", []string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}, kv.NotDone, "READONLY"},
		{"no memory", []string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}, kv.NotDone, "OOM"},
		{"another's key", []string{"HSET", "pawl:mark:=k", "a", "b"}, []string{"DEL", "pawl:mark:=k"}, kv.Refused, "WRONGTYPE"},
		{"another's text", []string{"SET", "pawl:mark:=k", "hello"}, []string{"DEL", "pawl:mark:=k"}, kv.Refused, "something else"},
		{"no permission", []string{"ACL", "SETUSER", "default", "-evalsha", "-eval"}, []string{"ACL", "SETUSER", "default", "+@all"}, kv.Refused, "NOPERM"},
	} {
		if err := mark(); err != nil {
			t.Fatal(err)
		}
		tell("DEL", "pawl:mark:=k")
		tell(c.spoil...)
		err := mark()
		u, ok := errors.AsType[*kv.Unavailable](err)
		if !ok || u.Outcome != c.want || !strings.Contains(err.Error(), c.wantInErr) {
			t.Errorf("%s: %v, want %v with %s", c.name, err, c.want, c.wantInErr)
		}
		tell(c.mend...)
	}
}

const password = "s3/cr:et?p@ss #%"

// withPassword is a URL whose password needs escapes.
func withPassword(user, secret, addr string) setting.Secret {
	escape := strings.NewReplacer("%", "%25", "/", "%2F", ":", "%3A", "?", "%3F", "@", "%40", " ", "%20", "#", "%23")
	return setting.NewSecret("redis://" + user + ":" + escape.Replace(secret) + "@" + addr)
}

func TestPassword(t *testing.T) {
	port := own(t, plain, "--port", "{port}", "--requirepass", password)
	addr := "127.0.0.1:" + port
	for name, c := range map[string]struct {
		url setting.Secret
		ok  bool
	}{
		"right":      {withPassword("", password, addr), true},
		"of a user":  {withPassword("default", password, addr), true},
		"wrong":      {withPassword("", password+"x", addr), false},
		"none":       {at(addr), false},
		"wrong user": {withPassword("other", password, addr), false},
	} {
		s := open(t, redis.Options{URL: c.url})
		_, err := s.Mark(t.Context(), "k", "one", time.Hour)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if u, ok := errors.AsType[*kv.Unavailable](err); !c.ok && (!ok || u.Outcome != kv.Refused) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
		if err != nil && strings.Contains(err.Error(), password) {
			t.Errorf("%s: the password is in %q", name, err)
		}
		s.Close()
	}
}

// A server that does not know a command sends back what it was told.
func TestPasswordIsNotInWhatAServerEchoes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go echo(c)
		}
	}()
	s := open(t, redis.Options{URL: withPassword("someone", password, l.Addr().String())})
	defer s.Close()
	err = s.Ping(t.Context())
	if err == nil || !strings.Contains(err.Error(), "beginning with: 'someone' '***'") || strings.Contains(err.Error(), password) {
		t.Errorf("%v", err)
	}
}

// echo answers every command with an error that has a password in it.
func echo(c net.Conn) {
	defer c.Close()
	b := make([]byte, 4096)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		for range bytes.Count(b[:n], []byte("\n*")) + 1 {
			_, _ = c.Write([]byte("-ERR unknown command 'AUTH', with args beginning with: 'someone' '" + password + "'\r\n"))
		}
	}
}

func TestUnixSocket(t *testing.T) {
	// A test's own folder may be too long for a socket's name.
	dir, err := os.MkdirTemp("", "kv")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	o := func(string) redis.Options { return redis.Options{URL: setting.NewSecret("unix://" + socket + "?db=3")} }
	own(t, o, "--port", "0", "--unixsocket", socket)
	s := open(t, o(""))
	defer s.Close()
	if got, err := s.Mark(t.Context(), "k", "one", time.Hour); err != nil || got.Found != kv.Mine {
		t.Errorf("%v, %v", got, err)
	}
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	pool := certificate(t, dir)
	secure := func(host string, c *tls.Config) func(string) redis.Options {
		return func(port string) redis.Options {
			return redis.Options{URL: setting.NewSecret("rediss://" + host + ":" + port), TLS: c}
		}
	}
	known := &tls.Config{RootCAs: pool}
	port := own(t, secure("127.0.0.1", known), "--port", "0", "--tls-port", "{port}", "--tls-auth-clients", "no",
		"--tls-cert-file", filepath.Join(dir, "cert.pem"), "--tls-key-file", filepath.Join(dir, "key.pem"), "--tls-ca-cert-file", filepath.Join(dir, "cert.pem"))
	for name, c := range map[string]struct {
		options redis.Options
		ok      bool
	}{
		"a known authority":  {secure("127.0.0.1", known)(port), true},
		"a name":             {secure("127.0.0.1", &tls.Config{RootCAs: pool, ServerName: "redis.internal"})(port), true},
		"an unknown one":     {secure("127.0.0.1", nil)(port), false},
		"another name":       {secure("localhost", known)(port), false},
		"another name given": {secure("127.0.0.1", &tls.Config{RootCAs: pool, ServerName: "other"})(port), false},
		"not spoken":         {plain(port), false},
	} {
		s := open(t, c.options)
		if _, err := s.Mark(t.Context(), name, "one", time.Hour); (err == nil) != c.ok || err != nil && !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		s.Close()
	}
	if known.MinVersion != 0 || known.ServerName != "" {
		t.Error("the caller's own configuration was changed")
	}
}

// Close does not wait for a handshake that nobody answers.
func TestCloseWhileConnecting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := open(t, redis.Options{URL: setting.NewSecret("rediss://" + l.Addr().String()), Silence: time.Hour})
	failed := make(chan error, 1)
	go func() { failed <- s.Ping(context.Background()) }()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it waits")
	}
	if err := <-failed; !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, kv.ErrClosed) {
		t.Errorf("the error is %v", err)
	}
}

// certificate writes one that is its own authority, for 127.0.0.1 and
// redis.internal.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"redis.internal"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

func TestOptions(t *testing.T) {
	for _, url := range []string{
		"redis://h", "redis://h:1/0", "redis://h:1?db=2&addr=i:2&addr=j:3&client_name=me", "rediss://u:p@h:1", "redis://:p@[::1]:1", "unix:///s?db=1",
	} {
		s, err := redis.New(redis.Options{URL: setting.NewSecret(url)})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		s.Close()
	}
	const secret = "hunter2"
	for _, url := range []string{
		"", "h:1", "http://:hunter2@h", "redis://", "redis:h", "redis://:hunter2@h:port", "redis://:hunter2/x@h:1", "redis://:hunter2?x@h:1", "redis://:hunter2#x@h:1",
		"redis://:hunter2%zz@h:1", "redis://:x@h:1/hunter2", "redis://h/1/hunter2", "redis://h?db=hunter2", "redis://h/-1", "redis://h?hunter2=1", "redis://h?max_retries=1",
		"redis://h?db=1&db=hunter2", "redis://h?db=%zz", "unix://", "unix://h/s", "unix:///s?addr=hunter2", "redis://:hunter2 x@h:1\n",
	} {
		s, err := redis.New(redis.Options{URL: setting.NewSecret(url)})
		if err == nil {
			s.Close()
			t.Errorf("%q is taken", url)
		} else if strings.Contains(err.Error(), secret) || !strings.HasPrefix(err.Error(), "url: ") {
			t.Errorf("%q: %v", url, err)
		}
	}
	for want, o := range map[string]redis.Options{
		"prefix: ":  {URL: at("h"), Prefix: "a{b"},
		"silence: ": {URL: at("h"), Silence: -1},
		"tls: ":     {URL: at("h"), TLS: &tls.Config{}},
	} {
		if _, err := redis.New(o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Two prefixes in one database don't meet.
func TestPrefixesDoNotMeet(t *testing.T) {
	addr, prefix := service(t)
	for _, p := range []string{"a:", "b:"} {
		s := open(t, redis.Options{URL: at(addr), Prefix: prefix + p})
		defer s.Close()
		if got, err := s.Mark(t.Context(), "k", p, time.Hour); err != nil || got.Found != kv.Mine {
			t.Errorf("%v, %v", got, err)
		}
		if got, err := s.Add(t.Context(), "k", []kv.Slot{{Counts: []int64{1}}}, time.Hour); err != nil || got[0].Counts[0] != 1 {
			t.Errorf("%v, %v", got, err)
		}
	}
}
