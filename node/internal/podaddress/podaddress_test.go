package podaddress_test

import (
	"testing"

	"github.com/workloadkit/workloadkit/node/internal/podaddress"
)

func TestParse(t *testing.T) {
	for podIP, want := range map[string]string{
		"10.1.2.3": "10.1.2.3", "::ffff:10.1.2.3": "10.1.2.3", "2001:db8::1": "2001:db8::1",
		"": "", "web.example.com": "", "0.0.0.0": "", "127.0.0.1": "", "::1": "", "::ffff:127.0.0.1": "", "169.254.169.254": "",
		"::ffff:169.254.169.254": "", "224.0.0.1": "", "fe80::1": "", "2001:db8::1%eth0": "",
	} {
		address, err := podaddress.Parse(podIP)
		if got := address.String(); err == nil && got != want || err != nil && want != "" {
			t.Errorf("%q: %s, %v; want %q", podIP, got, err, want)
		}
	}
}
