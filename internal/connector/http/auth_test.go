package http

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/setting"
)

// The vectors below were made with Python's hmac module over signedBody and
// signedAt, with the secrets "s1" and "s2" (base64 of "secret-one" and
// "secret-two" for Standard Webhooks).
const (
	signedBody = `{"id":"evt_1","event_id":"Ev1","n":1}`
	signedAt   = "946684800" // where a synctest bubble begins

	githubOne   = "sha256=e866a1eb62b342a2df2eb4fc75e1afead478c1842255b615319cbeee2711112e"
	githubTwo   = "sha256=f3422fe5c19da9102badb9c8960313605369ef7b14f7851feee5823255363908"
	stripeOne   = "222432ca59383c1359c4c8e5f786fc4363604a841902b73b94be0d22d7e71b45"
	stripeTwo   = "3c2614788a097c96d5daaec2d558e7c5ede1af4e3e72cb01ca7c5e523fd71851"
	shopifyOne  = "6Gah62KzQqLfLrT8deGv6tR4wYQiVbYVMZy+7icRES4="
	slackOne    = "v0=f5d8ade602d67e314f7c0b56c4937d5830d930daac5216d6bef971b283226ed2"
	standardOne = "v1,74R5lOVH8rIRIm451/iGYJvNWLlOJfGz3Ta8TzP4o1U="
	standardTwo = "v1,Y5Lb+XZeqt8tDkSBVRiPL7eMXhbFZjQogIvPzwOfK90="
	sha512One   = "fP/c/odNU4NEMJNggubQssmwVcLOiwOHpI68WQS+LSUCP8hXoD3mXh9VC3FlTGIx+HH6xa8oucPkmD8wHy2seg=="
	sha1One     = "e43ce4feb72442a7eac0ecd6a9304501f506fa50"
	customOne   = "8bc4aa9c51179d4883e5c914099ab914395ac9d490ebab9472291e51acc99fb3" // x|body|time
	challengeOK = "v0=e033b6c31389e006c6a2fd2777d2c01bbcd4a34c8d93b156748ab65c7c09129a"
	pingOK      = "sha256=7f377489d524e21a1c380a8bb7b57159085ebe3456ee2b3a4f146c813ab130f2"
)

func secrets(texts ...string) []setting.Secret {
	all := make([]setting.Secret, len(texts))
	for i, t := range texts {
		all[i] = setting.NewSecret(t)
	}
	return all
}

func one(text string) setting.Secret { return setting.NewSecret(text) }

// way is a way of authentication with requests that must pass and that must
// not.
type way struct {
	name string
	auth *Auth
	// good are headers that pass, each a request of its own.
	good [][]string
	// bad are headers that do not.
	bad map[string][]string
	// timed says that the good headers grow stale.
	timed bool
	// id is what the message must have; "" for one of our own.
	id string
	// secretHeaders must not be kept.
	secretHeaders []string
}

func ways() []way {
	signed := func(h string) map[string][]string {
		return map[string][]string{
			"missing": nil, "empty": {h, ""}, "noise": {h, "sha256=zz"}, "wrong": {h, "sha256=" + strings.Repeat("00", 32)},
		}
	}
	const slackTime, hookID, hookTime, hookSig = "X-Slack-Request-Timestamp", "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"
	return []way{
		{
			name: "bearer", auth: &Auth{Bearer: &BearerAuth{Token: one("t1"), Tokens: secrets("t2")}},
			good: [][]string{{"Authorization", "Bearer t1"}, {"Authorization", "bearer  t2"}},
			bad: map[string][]string{
				"missing": nil, "wrong": {"Authorization", "Bearer t3"}, "empty": {"Authorization", "Bearer "},
				"scheme": {"Authorization", "Basic t1"}, "prefix": {"Authorization", "Bearer t"}, "longer": {"Authorization", "Bearer t11"},
				"two": {"Authorization", "Bearer t1", "Authorization", "Bearer t1"},
			},
			secretHeaders: []string{"authorization"},
		},
		{
			name: "basic", auth: &Auth{Basic: &BasicAuth{User: "ann", Password: one("p:w")}},
			good: [][]string{{"Authorization", "Basic YW5uOnA6dw=="}},
			bad: map[string][]string{
				"missing": nil, "password": {"Authorization", "Basic YW5uOnB3"}, "user": {"Authorization", "Basic Ym9iOnA6dw=="},
				"noise": {"Authorization", "Basic %%%"}, "no colon": {"Authorization", "Basic YW5u"},
			},
			secretHeaders: []string{"authorization"},
		},
		{
			name: "hmac", auth: &Auth{HMAC: &HMACAuth{HMACForm: HMACForm{Secrets: secrets("s1", "s2"), Prefix: "sha256="}}},
			good: [][]string{{"X-Signature", githubOne}, {"X-Signature", githubTwo}, {"X-Signature", "sha256=00", "X-Signature", githubOne}},
			bad:  signed("X-Signature"), secretHeaders: []string{"x-signature"},
		},
		{
			name: "hmac sha1", auth: &Auth{HMAC: &HMACAuth{HMACForm: HMACForm{Secret: one("s1"), Algorithm: "sha1", Header: "X-Old"}}},
			good: [][]string{{"X-Old", sha1One}}, bad: signed("X-Old"), secretHeaders: []string{"x-old"},
		},
		{
			name: "hmac sha512 with a time", timed: true, auth: &Auth{HMAC: &HMACAuth{HMACForm: HMACForm{Secret: one("s1"), Algorithm: "sha512", Encoding: "base64", TimestampHeader: "X-Time"}}},
			good: [][]string{{"X-Signature", sha512One, "X-Time", signedAt}},
			bad: map[string][]string{
				"no time": {"X-Signature", sha512One}, "other time": {"X-Signature", sha512One, "X-Time", "946684801"},
				"no number": {"X-Signature", sha512One, "X-Time", "now"}, "negative": {"X-Signature", sha512One, "X-Time", "-946684800"},
				"endless": {"X-Signature", sha512One, "X-Time", strings.Repeat("9", 400)},
				"two":     {"X-Signature", sha512One, "X-Time", signedAt, "X-Time", signedAt},
			},
			secretHeaders: []string{"x-signature", "x-time"},
		},
		{
			name: "hmac payload", timed: true, auth: &Auth{HMAC: &HMACAuth{HMACForm: HMACForm{Secret: one("s1"), TimestampHeader: "X-Time", Payload: "x|{body}|{timestamp}"}}},
			good: [][]string{{"X-Signature", customOne, "X-Time", signedAt}}, bad: signed("X-Signature"),
		},
		{
			name: "standard_webhooks", timed: true, id: "msg_1",
			auth: &Auth{StandardWebhooks: &Secrets{Secret: one("whsec_c2VjcmV0LW9uZQ=="), Secrets: secrets("c2VjcmV0LXR3bw==")}},
			good: [][]string{
				{hookID, "msg_1", hookTime, signedAt, hookSig, standardOne, "Idempotency-Key", "unsigned"},
				{hookID, "msg_1", hookTime, signedAt, hookSig, "v1a,x v1,zz " + standardTwo},
			},
			bad: map[string][]string{
				"missing": nil, "other id": {hookID, "msg_2", hookTime, signedAt, hookSig, standardOne},
				"other time": {hookID, "msg_1", hookTime, "946684801", hookSig, standardOne},
				"no id":      {hookTime, signedAt, hookSig, standardOne},
				"wrong":      {hookID, "msg_1", hookTime, signedAt, hookSig, "v1,AAAA"},
				"two ids":    {hookID, "msg_1", hookID, "msg_1", hookTime, signedAt, hookSig, standardOne},
				"too many":   {hookID, "msg_1", hookTime, signedAt, hookSig, strings.Repeat("v1,AAAA ", maxSignatures) + standardOne},
			},
			secretHeaders: []string{"webhook-signature"},
		},
		{
			name: "github", auth: &Auth{Preset: "github", Secrets: secrets("s1", "s2")}, id: "guid-1",
			good: [][]string{{"X-Hub-Signature-256", githubOne, "X-GitHub-Delivery", "guid-1"}, {"X-Hub-Signature-256", githubTwo, "X-GitHub-Delivery", "guid-1"}},
			bad:  signed("X-Hub-Signature-256"), secretHeaders: []string{"x-hub-signature-256"},
		},
		{
			name: "stripe", auth: &Auth{Preset: "stripe", Secret: one("s1"), Secrets: secrets("s2")}, id: "evt_1", timed: true,
			good: [][]string{
				{"Stripe-Signature", "t=" + signedAt + ",v1=" + stripeOne + ",v0=abc"},
				{"Stripe-Signature", "t=" + signedAt + ", v1=00, v1=" + stripeTwo},
			},
			bad: map[string][]string{
				"missing": nil, "no time": {"Stripe-Signature", "v1=" + stripeOne}, "wrong": {"Stripe-Signature", "t=" + signedAt + ",v1=00"},
				"other scheme": {"Stripe-Signature", "t=" + signedAt + ",v0=" + stripeOne}, "other time": {"Stripe-Signature", "t=946684801,v1=" + stripeOne},
				"too many": {"Stripe-Signature", "t=" + signedAt + strings.Repeat(",v1=00", maxSignatures) + ",v1=" + stripeOne},
			},
			secretHeaders: []string{"stripe-signature"},
		},
		{
			name: "shopify", auth: &Auth{Preset: "shopify", Secret: one("s1")}, id: "b54557e4",
			good: [][]string{{"X-Shopify-Hmac-Sha256", shopifyOne, "X-Shopify-Webhook-Id", "b54557e4"}},
			bad:  signed("X-Shopify-Hmac-Sha256"), secretHeaders: []string{"x-shopify-hmac-sha256"},
		},
		{
			name: "slack", auth: &Auth{Preset: "slack", Secret: one("s1")}, id: "Ev1", timed: true,
			good: [][]string{{"X-Slack-Signature", slackOne, slackTime, signedAt}},
			bad: map[string][]string{
				"missing": nil, "no time": {"X-Slack-Signature", slackOne}, "other time": {"X-Slack-Signature", slackOne, slackTime, "946684801"},
				"no version": {"X-Slack-Signature", strings.TrimPrefix(slackOne, "v0="), slackTime, signedAt},
			},
			secretHeaders: []string{"x-slack-signature"},
		},
	}
}

func TestAuth(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			withSource(t, func(s *SourceSettings) { s.Auth = w.auth }, func(r *rig) {
				for i, header := range w.good {
					a := r.post(signedBody, header...)
					if a.status != 200 {
						t.Fatalf("good request %d: %d %s", i, a.status, a.body)
					}
					checkDelivery(r.T, w, r.relay.last(r.T))
				}
				passed := r.relay.count()
				refused := func(name, body string, header []string) {
					t.Helper()
					a := r.post(body, header...)
					if a.status != 401 || a.header.Get("WWW-Authenticate") == "" || a.field(r.T, "detail") != errUnauthenticated.detail {
						t.Errorf("%s: %d %v %s, want a 401 that says nothing more", name, a.status, a.header, a.body)
					}
				}
				for name, header := range w.bad {
					refused(name, signedBody, header)
				}
				if w.auth.Bearer == nil && w.auth.Basic == nil {
					refused("another body", signedBody+" ", w.good[0])
				}
				if w.timed {
					time.Sleep(defaultTolerance)
					if a := r.post(signedBody, w.good[0]...); a.status != 200 {
						t.Errorf("five minutes old: %d", a.status)
					}
					passed++
					time.Sleep(time.Second)
					refused("stale", signedBody, w.good[0])
				}
				if got := r.relay.count(); got != passed {
					t.Errorf("%d messages, want %d: a refused request became one", got, passed)
				}
			})
		})
	}
}

func checkDelivery(t *testing.T, w way, d connector.Delivery) {
	t.Helper()
	if w.id == "" && d.Keyed || w.id != "" && d.Message.ID != w.id {
		t.Errorf("id %q, keyed %v; want %q", d.Message.ID, d.Keyed, w.id)
	}
	if d.Caller == "" || strings.Contains(d.Caller, "t1") || strings.Contains(d.Caller, "ann") {
		t.Errorf("caller %q, want an opaque word", d.Caller)
	}
	for _, name := range w.secretHeaders {
		if _, kept := d.Message.Headers[name]; kept {
			t.Errorf("header %s is kept", name)
		}
	}
}

func TestFutureTimestampsAreRefused(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for offset, want := range map[int]bool{-301: false, -300: true, 0: true, 300: true, 301: false} {
		if got := fresh(strconv.Itoa(1_000_000+offset), now, defaultTolerance); got != want {
			t.Errorf("%+d s: fresh = %v, want %v", offset, got, want)
		}
	}
}

func TestTwoTokensAreTwoCallers(t *testing.T) {
	withSource(t, func(s *SourceSettings) { s.Auth = &Auth{Bearer: &BearerAuth{Tokens: secrets("t1", "t2")}} }, func(r *rig) {
		callers := map[string]bool{}
		for _, token := range []string{"t1", "t2", "t1"} {
			r.post("", "Authorization", "Bearer "+token)
			callers[r.relay.last(r.T).Caller] = true
		}
		if len(callers) != 2 {
			t.Errorf("callers %v, want two", callers)
		}
	})
}

// Vectors that the senders publish in their documentation.
func TestPublishedVectors(t *testing.T) {
	const slackBody = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	for _, c := range []struct {
		name   string
		auth   *Auth
		at     int64
		body   string
		header []string
	}{
		{"github", &Auth{Preset: "github", Secret: one("It's a Secret to Everybody")}, 1e9, "Hello, World!",
			[]string{"X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}},
		{"slack", &Auth{Preset: "slack", Secret: one("8f742231b10e8888abcd99yyyzzz85a5")}, 1531420618, slackBody,
			[]string{"X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503", "X-Slack-Request-Timestamp", "1531420618",
				"Content-Type", "application/x-www-form-urlencoded"}},
		{"standard_webhooks", &Auth{StandardWebhooks: &Secrets{Secret: one("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}}, 1614265330, `{"test": 2432232314}`,
			[]string{"Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp", "1614265330", "Webhook-Signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}},
	} {
		t.Run(c.name, func(t *testing.T) {
			withSource(t, func(s *SourceSettings) { s.Auth = c.auth }, func(r *rig) {
				time.Sleep(time.Until(time.Unix(c.at, 0)))
				if a := r.post(c.body, c.header...); a.status != 200 {
					t.Errorf("%d %s", a.status, a.body)
				}
			})
		})
	}
}

func TestHandshakesAreAnsweredAndAreNoMessages(t *testing.T) {
	withSource(t, func(s *SourceSettings) { s.Auth = &Auth{Preset: "slack", Secret: one("s1")} }, func(r *rig) {
		const challenge = `{"token":"t","challenge":"3eZbrw1aB","type":"url_verification"}`
		a := r.post(challenge, "X-Slack-Signature", challengeOK, "X-Slack-Request-Timestamp", signedAt)
		if a.status != 200 || a.body != "3eZbrw1aB" || r.relay.count() != 0 {
			t.Errorf("%+v, %d messages", a, r.relay.count())
		}
		if a := r.post(challenge, "X-Slack-Signature", slackOne, "X-Slack-Request-Timestamp", signedAt); a.status != 401 {
			t.Errorf("a forged challenge: %d", a.status)
		}
	})
	withSource(t, func(s *SourceSettings) { s.Auth = &Auth{Preset: "github", Secret: one("s1")} }, func(r *rig) {
		a := r.post(`{"zen":"z"}`, "X-Hub-Signature-256", pingOK, "X-GitHub-Event", "ping", "X-GitHub-Delivery", "1")
		if a.status != 200 || r.relay.count() != 0 {
			t.Errorf("%+v, %d messages", a, r.relay.count())
		}
	})
}

func TestSignatureIsOverTheBytesAsSent(t *testing.T) {
	withSource(t, func(s *SourceSettings) { s.Auth = &Auth{Preset: "github", Secret: one("s1")} }, func(r *rig) {
		body := packed(t, signedBody)
		if a := r.post(body, "Content-Encoding", "gzip", "X-Hub-Signature-256", githubOne); a.status != 401 {
			t.Errorf("a signature over the unpacked body: %d", a.status)
		}
	})
}

func TestTopStrings(t *testing.T) {
	for body, want := range map[string]string{
		`{"id":"a"}`: "a", `{"x":{"id":"no"},"id":"b"}`: "b", `{"id":1}`: "", `[{"id":"a"}]`: "", ``: "", `nonsense`: "",
		`{"id":"a","broken`: "a", `{"x":[`: "", `{"id":null,"x":1}`: "",
	} {
		if got := topStrings([]byte(body), "id")["id"]; got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
