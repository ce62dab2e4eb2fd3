package egress

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// read reads one answer as the direct path does.
func read(src io.Reader, method string) (*Response, *exchange, error) {
	opts, _ := Options{}.withDefaults()
	x := &exchange{in: reader{src: src}, opts: &opts}
	resp, err := x.answer(&Request{Target: &Target{method: method}, KeepBody: true})
	return resp, x, err
}

// reference reads the same with net/http, 1xx answers skipped.
func reference(in *bufio.Reader, method string) (*http.Response, []byte, error) {
	for range maxInformational + 1 {
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return nil, nil, err
		}
		switch {
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, nil, errSwitches
		case resp.StatusCode >= 200:
			body, err := io.ReadAll(resp.Body)
			return resp, body, err
		}
	}
	return nil, nil, errors.New("too many 1xx answers")
}

// What our reader takes, net/http takes too, with the same status, header and
// body, and leaves the same bytes behind it. The other way round it may refuse
// on purpose what net/http takes: folded lines, names that are no tokens (a
// space before the colon), another version than 1.0 and 1.1, more or less than
// one space before the status, a status below 100 or with a sign, control
// characters in the reason, chunked in HTTP/1.0, broken trailers, lines of chunks
// over 256 bytes, chunk sizes of 16 digits, and what is over its bounds. So
// what it refuses is not compared, except for answers made from valid parts:
// see TestValidAnswers.
func FuzzReader(f *testing.F) {
	for _, raw := range []string{
		okAnswer,
		"HTTP/1.0 200\r\n\r\nok",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nX: a\r\nx: b\r\nContent-Length: 0\r\n\r\nrest",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX: y\r\n\r\nrest",
		"HTTP/1.1 200 OK\nContent-Length: 2\nContent-Length:2\n\nok",
		"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nConnection: close\r\n\r\n",
	} {
		f.Add([]byte(raw), false)
		f.Add([]byte(raw), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, isHead bool) {
		method := http.MethodPost
		if isHead {
			method = http.MethodHead
		}
		got, x, err := read(bytes.NewReader(raw), method)
		if _, _, slow := read(iotest.OneByteReader(bytes.NewReader(raw)), method); (slow == nil) != (err == nil) {
			t.Fatalf("at once: %v, byte by byte: %v", err, slow)
		}
		if err != nil {
			return
		}
		in := bufio.NewReader(bytes.NewReader(raw))
		want, body, err := reference(in, method)
		if err != nil {
			t.Fatalf("took %+v, which net/http refuses: %v", got, err)
		}
		if got.Status != want.StatusCode || !bytes.Equal(got.Body, body) && !got.Truncated {
			t.Errorf("got %d %q, net/http %d %q", got.Status, got.Body, want.StatusCode, body)
		}
		if diff := cmp.Diff(shared(want.Header), shared(got.Header())); diff != "" {
			t.Errorf("header (-net/http +ours):\n%s", diff)
		}
		if x.persist {
			rest, _ := io.ReadAll(in)
			ours := append(bytes.Clone(x.in.buf[x.in.r:x.in.w]), mustReadAll(t, x.in.src)...)
			if want.Close || !bytes.Equal(rest, ours) {
				t.Errorf("keeps the connection with %q behind the answer; net/http closes it: %v, with %q", ours, want.Close, rest)
			}
		}
	})
}

func mustReadAll(t *testing.T, r io.Reader) []byte {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// shared leaves out the fields that net/http takes out of a header or joins.
func shared(h http.Header) http.Header {
	h = maps.Clone(h)
	for _, name := range []string{"Transfer-Encoding", "Content-Length", "Connection", "Trailer"} {
		delete(h, name)
	}
	return h
}

// Every valid answer is read whole, however it comes in pieces, and an answer
// cut anywhere before its end is never taken for a whole one.
func TestValidAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := []byte(rapid.StringN(0, 9000, 9000).Draw(t, "body"))
		status := rapid.SampledFrom([]string{"200 OK", "201", "404 Not Found", "503 "}).Draw(t, "status")
		end := rapid.SampledFrom([]string{"\r\n", "\n"}).Draw(t, "line end")
		fields := rapid.MapOfN(rapid.StringMatching(`X-[A-Za-z0-9!#$%&'*+.^_|~-]{1,20}`), rapid.StringMatching(`[ -~]{0,50}`), 0, 20).Draw(t, "fields")
		var raw strings.Builder
		raw.WriteString("HTTP/1.1 " + status + end)
		for name, value := range fields {
			raw.WriteString(name + ":" + value + end)
		}
		if rapid.Bool().Draw(t, "chunked") {
			raw.WriteString("transfer-encoding: Chunked" + end + end)
			writeChunks(t, &raw, body)
		} else {
			raw.WriteString("content-length: " + strconv.Itoa(len(body)) + end + end + string(body))
		}
		got, x, err := read(inPieces(t, raw.String()), http.MethodPost)
		if err != nil {
			t.Fatalf("%v of %q", err, raw.String())
		}
		if !bytes.Equal(got.Body, body) || !x.persist || !x.reusable() {
			t.Fatalf("got %d bytes, persist %v, reusable %v; want %d bytes and the connection", len(got.Body), x.persist, x.reusable(), len(body))
		}
		for name, value := range fields {
			if want := strings.Trim(value, " "); got.Get(name) != want && !hasTwin(fields, name) {
				t.Fatalf("%s is %q, want %q", name, got.Get(name), want)
			}
		}
		cut := rapid.IntRange(0, raw.Len()-1).Draw(t, "cut")
		if _, _, err := read(inPieces(t, raw.String()[:cut]), http.MethodPost); err == nil {
			t.Fatalf("cut after %d of %d bytes, and taken for whole", cut, raw.Len())
		}
	})
}

func hasTwin(fields map[string]string, name string) bool {
	n := 0
	for other := range fields {
		if strings.EqualFold(other, name) {
			n++
		}
	}
	return n > 1
}

func writeChunks(t *rapid.T, raw *strings.Builder, body []byte) {
	for len(body) > 0 {
		n := rapid.IntRange(1, len(body)).Draw(t, "chunk")
		raw.WriteString(strconv.FormatInt(int64(n), 16) + rapid.SampledFrom([]string{"", ";a", ";a=b", " "}).Draw(t, "extension") + "\r\n" + string(body[:n]) + "\r\n")
		body = body[n:]
	}
	raw.WriteString("0\r\n" + rapid.SampledFrom([]string{"", "X-Sum: 1\r\n"}).Draw(t, "trailer") + "\r\n")
}

// inPieces gives raw in pieces of any size.
func inPieces(t *rapid.T, raw string) io.Reader {
	sizes := rapid.SliceOfN(rapid.IntRange(1, 5000), 1, 8).Draw(t, "pieces")
	var parts []io.Reader
	for i := 0; raw != ""; i++ {
		n := min(sizes[i%len(sizes)], len(raw))
		parts = append(parts, strings.NewReader(raw[:n]))
		raw = raw[n:]
	}
	return io.MultiReader(parts...)
}
