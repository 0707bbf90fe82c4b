package conformance

// This file runs net/http over FUNet, in three forms, under vegeta, a load tool.

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

const (
	httpRate = 500 // requests a second
	httpTime = 3 * time.Second
	// httpLong is how long a long body is: more than a connection's first ring, many times.
	httpLong = 1 << 20
)

// handler echoes, and has something long. It reads everything before it answers, as HTTP/1 has it
// (http.ResponseWriter).
func handler(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/long" {
		// the client counts what comes
		_, _ = io.Copy(w, strings.NewReader(strings.Repeat("funet\r\n\x00", httpLong/8)))
		return
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(b) // vegeta counts what comes
}

// Rule: HTTP/1.1, HTTP/2 without TLS (h2c, RFC 9113 section 3.3) and HTTPS run over our listener
// and dialer, under load and without an error.
func TestHTTP(t *testing.T) {
	for _, kind := range []string{veth, daemons} {
		b := newBed(t, kind)
		for _, form := range []string{"http1", "h2c", "tls"} {
			t.Run(kind+"/"+form, func(t *testing.T) { attack(t, b.funet(), kind, form) })
		}
	}
}

func attack(t *testing.T, w way, kind, form string) {
	l, err := w.listen()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(handler))
	s.Listener.Close()
	s.Listener = l
	transport := &http.Transport{DialContext: w.dial, MaxIdleConnsPerHost: 16, Protocols: new(http.Protocols)}
	defer transport.CloseIdleConnections()
	s.Config.Protocols = new(http.Protocols)
	scheme := "http"
	switch form {
	case "http1":
		s.Config.Protocols.SetHTTP1(true)
		transport.Protocols.SetHTTP1(true)
		s.Start()
	case "h2c":
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		transport.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
	case "tls":
		scheme = "https"
		s.EnableHTTP2 = true
		s.Config.Protocols.SetHTTP2(true)
		transport.Protocols.SetHTTP2(true)
		s.StartTLS()
		roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		// httptest's certificate is for that name
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: "example.com"}
	}
	defer s.Close()

	base := fmt.Sprintf("%s://%s", scheme, l.Addr())
	client := &http.Client{Transport: transport, Timeout: patience}
	long, err := client.Get(base + "/long")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, long.Body); n != httpLong || err != nil {
		t.Fatalf("%d bytes of %d, %v", n, httpLong, err)
	}
	long.Body.Close()

	var m vegeta.Metrics
	targets := vegeta.NewStaticTargeter(
		vegeta.Target{Method: http.MethodPost, URL: base + "/", Body: []byte("a short one")},
		vegeta.Target{Method: http.MethodPost, URL: base + "/", Body: []byte(strings.Repeat("x", 20_000))})
	for r := range vegeta.NewAttacker(vegeta.Client(client)).Attack(targets,
		vegeta.Rate{Freq: httpRate, Per: time.Second}, httpTime, kind+" "+form) {
		m.Add(r)
	}
	m.Close()
	if m.Requests == 0 || m.Success != 1 || len(m.Errors) > 0 || m.BytesIn.Total != m.BytesOut.Total {
		t.Errorf("%d requests, of which %.4f succeeded, %d bytes sent and %d back: %v", m.Requests, m.Success,
			m.BytesOut.Total, m.BytesIn.Total, m.Errors)
	}
	report(t, kind+"_"+form, map[string]float64{"p50_us": float64(m.Latencies.P50.Microseconds()),
		"p99_us": float64(m.Latencies.P99.Microseconds()), "success": m.Success})
}
