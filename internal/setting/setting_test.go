// What these tests would catch: a value that reads as another one than was
// meant, one that does not read back as it was printed, a parser that panics
// or lets a negative, endless or overflowing number through, and a secret that
// can be printed in any way.
package setting

import (
	"bytes"
	"encoding/json"
	jsonv2 "encoding/json/v2"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "250ms": 250 * time.Millisecond, "1m30s": 90 * time.Second, "7d": 7 * day, "1d12h": 36 * time.Hour,
		"0.5d": 12 * time.Hour, "1.5h": 90 * time.Minute, " 5s ": 5 * time.Second, "2h0m": 2 * time.Hour, "1d0s": day, "100us": 100 * time.Microsecond,
		"1µs": time.Microsecond, "106751d": 106751 * day,
	} {
		if got, err := ParseDuration(text); err != nil || got.D() != want {
			t.Errorf("%q is %v, %v; not %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "5", "-1s", "-0s", "d", "1w", "1 week", "soon", "1d-1h", "1d+1h", "+1s", "+1d", "1e3d", "0x1d", "NaNd", "Infd", "infd",
		"_1d", "1_0d", "200000d", "106751d24h", "9999999h", "1d 1h", "1dd", "1h1d", "1d5", ".", ".d", "\x00", "1s\x00",
	} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestDurationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "nanoseconds"))
		if got, err := ParseDuration(d.String()); err != nil || got != d {
			t.Fatalf("%d prints as %q and reads as %d, %v", d, d, got, err)
		}
	})
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", time.Minute: "1m", time.Hour: "1h", 24 * time.Hour: "1d", 36 * time.Hour: "1d12h",
		90 * time.Second: "1m30s", time.Hour + time.Second: "1h0m1s", 90 * time.Minute: "1h30m", 1500 * time.Millisecond: "1.5s",
	} {
		if got := Duration(d).String(); got != want {
			t.Errorf("%v prints as %s, not %s", d, got, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "65536": 65536, "64KiB": 65536, "64 KiB": 65536, "1MB": 1_000_000, "1kB": 1000, "1KB": 1000, "1.5GiB": 3 << 29,
		"1TiB": 1 << 40, "2TB": 2e12, "12B": 12, "4194304TiB": 1 << 62, "4611686018427387904": 1 << 62,
		"4611686018427387903": 1<<62 - 1, "9007199254740993": 9007199254740993, "1e3": 1000,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; not %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "KiB", "-1", "-0", "1XB", "1kib", "1K", "0x10", "1_000", "NaN", "Inf", "+1", "+Inf", "infB", "4194305TiB", "4611686018427387905", "1e300", "1 0", "\x00",
	} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

func TestSizeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := Size(rapid.Int64Range(0, 1<<62).Draw(t, "bytes"))
		if got, err := ParseSize(z.String()); err != nil || got != z {
			t.Fatalf("%d prints as %q and reads as %d, %v", int64(z), z, int64(got), err)
		}
	})
}

func TestParseRatio(t *testing.T) {
	for text, want := range map[string]Ratio{"0": 0, "1": 1, "0.5": 0.5, "50%": 0.5, "50 %": 0.5, "100%": 1, "0%": 0, ".25": 0.25, "1e-3": 0.001} {
		if got, err := ParseRatio(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; not %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "%", "1.01", "101%", "-0.1", "-1%", "half", "NaN", "Inf", "0x1p-2", "50%%", "1_0%", "+0.5", "\x00"} {
		if got, err := ParseRatio(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestRatioRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Ratio(rapid.Float64Range(0, 1).Draw(t, "ratio"))
		if got, err := ParseRatio(r.String()); err != nil || got != r {
			t.Fatalf("%v prints as %q and reads as %v, %v", float64(r), r, got, err)
		}
	})
}

// TestYAML reads each type from YAML and refuses what is no scalar.
func TestYAML(t *testing.T) {
	var v struct {
		D Duration `yaml:"d"`
		Z Size     `yaml:"z"`
		R Ratio    `yaml:"r"`
		S Secret   `yaml:"s"`
	}
	if err := yaml.Load([]byte("d: 1d\nz: 64KiB\nr: 50%\ns: hush\n"), &v); err != nil {
		t.Fatal(err)
	}
	if v.D.D() != 24*time.Hour || v.Z != 65536 || v.R != 0.5 || v.S.Reveal() != "hush" {
		t.Errorf("read %+v %q", v, v.S.Reveal())
	}
	for _, text := range []string{"d: [1]", "z: {a: 1}", "r: []", "s: {}", "d: x", "z: x", "r: 2"} {
		if err := yaml.Load([]byte(text), &v); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

func TestMarshal(t *testing.T) {
	v := map[string]any{"d": Duration(36 * time.Hour), "r": Ratio(0.5), "s": NewSecret("hush"), "z": Size(65536)}
	out, err := jsonv2.Marshal(v, jsonv2.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"d":"1d12h","r":"0.5","s":"***","z":"64KiB"}`; string(out) != want {
		t.Errorf("JSON %s, not %s", out, want)
	}
}

// TestSecretIsNeverPrinted prints a secret in every way there is.
func TestSecretIsNeverPrinted(t *testing.T) {
	const value = "s3cr3t"
	s := NewSecret(value)
	type holder struct {
		Public string
		S      Secret
		P      *Secret
		M      map[string]Secret
		L      []Secret
		hidden Secret // fmt can't call methods here
	}
	h := holder{"public", s, &s, map[string]Secret{"k": s}, []Secret{s}, s}
	var out bytes.Buffer
	for _, verb := range strings.Split("v +v #v s q x X d t b c o O e E f F g G U w z", " ") {
		for _, x := range []any{s, &s, h, &h, []any{s}, map[string]any{"k": s}, fmt.Errorf("of %v", s)} {
			fmt.Fprintf(&out, "%"+verb+" %10"+verb+" %-.2"+verb, x, x, x)
		}
	}
	fmt.Fprint(&out, s, &s, h)
	fmt.Fprintln(&out, s.String())
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("x", "secret", s, "pointer", &s, "holder", h, "group", slog.GroupValue(slog.Any("s", s)))
	}
	for _, marshal := range []func() ([]byte, error){
		func() ([]byte, error) { return json.Marshal(h) },
		func() ([]byte, error) { return jsonv2.Marshal(h) },
		func() ([]byte, error) { return yaml.Dump(h) },
		func() ([]byte, error) { return yaml.Marshal(map[string]any{"s": s}) },
		s.MarshalText, s.MarshalJSON,
	} {
		text, err := marshal()
		if err != nil {
			t.Error(err)
		}
		out.Write(text)
	}
	for _, shown := range []string{value, fmt.Sprintf("%x", value), fmt.Sprintf("%X", value), fmt.Sprintf("% x", value)} {
		if strings.Contains(out.String(), shown) {
			at := strings.Index(out.String(), shown)
			t.Errorf("%q shows in …%s", shown, out.String()[max(0, at-60):at+len(shown)])
		}
	}
	if s != NewSecret(value) || s == NewSecret("other") {
		t.Error("secrets do not compare by their text")
	}
	if s.Reveal() != value || s.Empty() || !NewSecret("").Empty() {
		t.Error("Reveal and Empty do not tell the value")
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"", "0", "5", "1d", "1d12h", "-1s", "1.5h", "99999999999d", "NaNd", "1e9d", "µs", "1µs"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			return
		}
		if d < 0 {
			t.Fatalf("%q is negative: %d", s, d)
		}
		if again, err := ParseDuration(d.String()); err != nil || again != d {
			t.Fatalf("%q is %d, prints as %s, reads as %d, %v", s, d, d, again, err)
		}
	})
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"", "0", "65536", "64KiB", "1.5GiB", "-1", "1e300", "NaN", "4194304TiB", "1 MB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		z, err := ParseSize(s)
		if err != nil {
			return
		}
		if z < 0 || z > 1<<62 {
			t.Fatalf("%q is %d", s, z)
		}
		if again, err := ParseSize(z.String()); err != nil || again != z {
			t.Fatalf("%q is %d, prints as %s, reads as %d, %v", s, z, z, again, err)
		}
	})
}

func FuzzParseRatio(f *testing.F) {
	for _, s := range []string{"", "0", "1", "0.5", "50%", "101%", "-1", "NaN", "1e-400", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRatio(s)
		if err != nil {
			return
		}
		if !(r >= 0 && r <= 1) {
			t.Fatalf("%q is %v", s, float64(r))
		}
		if again, err := ParseRatio(r.String()); err != nil || again != r {
			t.Fatalf("%q is %v, prints as %s, reads as %v, %v", s, float64(r), r, again, err)
		}
	})
}
