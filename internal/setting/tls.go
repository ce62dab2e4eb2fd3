package setting

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
)

// ServerTLS names the files that make a listener speak TLS 1.2 or later.
type ServerTLS struct {
	Cert     string `yaml:"cert" path:"read" doc:"PEM file with the certificate and its chain"`
	Key      string `yaml:"key" path:"read" doc:"PEM file with the private key"`
	ClientCA string `yaml:"client_ca" path:"read" doc:"PEM file of authorities; callers must then show a certificate of one of them"`
}

// Config reads the files. nil settings give a nil config: plain text.
func (t *ServerTLS) Config() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	pair, err := LoadPair(t.Cert, t.Key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if t.ClientCA != "" {
		if c.ClientCAs, err = LoadCA(t.ClientCA); err != nil {
			return nil, err
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// ClientTLS says whom an outgoing connection trusts, and who it is.
type ClientTLS struct {
	CA         string `yaml:"ca" path:"read" doc:"PEM file of authorities to trust in place of the system's"`
	Cert       string `yaml:"cert" path:"read" doc:"PEM file with the certificate to show, and its chain"`
	Key        string `yaml:"key" path:"read" doc:"PEM file with its private key"`
	ServerName string `yaml:"server_name" secret:"never" doc:"name that the endpoint's certificate must have, in place of the URL's host"`
}

// Config reads the files. nil settings give a nil config: the system's
// authorities. Cert and Key go together, which is the caller's to check.
func (t *ClientTLS) Config() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	var err error
	if t.CA != "" {
		if c.RootCAs, err = LoadCA(t.CA); err != nil {
			return nil, err
		}
	}
	if t.Cert != "" {
		pair, err := LoadPair(t.Cert, t.Key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// LoadCA reads a PEM file of certificate authorities.
func LoadCA(file string) (*x509.CertPool, error) {
	pem, err := ReadFile(file, maxPEM)
	if err != nil {
		return nil, wrapTLS(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls: %s holds no PEM certificate", file)
	}
	return pool, nil
}

// wrapTLS names the subject once: crypto/tls does so itself, os does not.
func wrapTLS(err error) error {
	if strings.HasPrefix(err.Error(), "tls: ") {
		return err
	}
	return fmt.Errorf("tls: %w", err)
}
