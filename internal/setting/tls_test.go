package setting

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate writes a self-signed certificate and its key.
func certificate(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestServerTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir, "a")
	_, other := certificate(t, dir, "b")

	if c, err := (*ServerTLS)(nil).Config(); c != nil || err != nil {
		t.Errorf("no settings give %v, %v", c, err)
	}
	c, err := (&ServerTLS{Cert: cert, Key: key}).Config()
	if err != nil {
		t.Fatal(err)
	}
	if c.MinVersion != tls.VersionTLS12 || len(c.Certificates) != 1 || c.ClientAuth != tls.NoClientCert {
		t.Errorf("%+v", c)
	}
	c, err = (&ServerTLS{Cert: cert, Key: key, ClientCA: cert}).Config()
	if err != nil {
		t.Fatal(err)
	}
	if c.ClientAuth != tls.RequireAndVerifyClientCert || c.ClientCAs == nil {
		t.Error("client_ca does not ask callers for a certificate")
	}
	for name, s := range map[string]ServerTLS{
		"another key": {Cert: cert, Key: other}, "no file": {Cert: cert, Key: filepath.Join(dir, "absent")},
		"no authority": {Cert: cert, Key: key, ClientCA: key}, "no authority file": {Cert: cert, Key: key, ClientCA: filepath.Join(dir, "absent")},
	} {
		if _, err := s.Config(); err == nil || !strings.HasPrefix(err.Error(), "tls: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
