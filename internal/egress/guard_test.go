package egress

import "testing"

// Catches: a literal address that would be refused at each connection and is taken
// for good, in any of its spellings; a public one that is refused.
func TestCheckPublic(t *testing.T) {
	for _, host := range []string{
		"10.0.0.1", "127.0.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
		"::1", "::", "fe80::1", "fe80::1%eth0", "fd00::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "ff02::1",
		"localhost", "LOCALHOST.", "a.localhost",
	} {
		if CheckPublic(host) == nil {
			t.Errorf("%s passes", host)
		}
	}
	for _, host := range []string{"8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "example.com", "localhost.example.com", "10.0.0.1.example.com"} {
		if err := CheckPublic(host); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}
