package setting

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// OpenFile opens a regular file for reading. Anything else is an error at once:
// a named pipe would wait for its writer, a device might never end, and what
// waits to read its configuration hears no signal.
func OpenFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // without it the open itself waits
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errIrregular(info)}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func errIrregular(info fs.FileInfo) error {
	if info.IsDir() {
		return errors.New("it is a folder")
	}
	return errors.New("it is no regular file")
}

// ReadFile reads a whole regular file of at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is larger than %d KiB", limit>>10)}
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// maxPEM is the largest file of certificates or of a key: the authorities of
// a whole system are about 250 KiB.
const maxPEM = 4 << 20

// LoadPair reads a certificate with its chain, and its private key.
func LoadPair(cert, key string) (tls.Certificate, error) {
	certPEM, err := ReadFile(cert, maxPEM)
	if err != nil {
		return tls.Certificate{}, wrapTLS(err)
	}
	keyPEM, err := ReadFile(key, maxPEM)
	if err != nil {
		return tls.Certificate{}, wrapTLS(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, wrapTLS(err)
	}
	return pair, nil
}
