// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Lifetimes of the certificates, and when they are renewed. The authority lives long, since nobody but the API server,
// which is told of it, has to trust it.
const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	serverLifetime    = 365 * 24 * time.Hour
	renewBefore       = 90 * 24 * time.Hour
)

// DefaultCheckEvery is how often the expiry is looked at.
const DefaultCheckEvery = 12 * time.Hour

// fieldOwner marks what the rotation wrote.
const fieldOwner = "sless-certificates"

// Options names what the rotation works on. The lifetimes have defaults.
type Options struct {
	// Namespace is that of the Service and the Secret.
	Namespace string
	// Service is the name under which the API server calls.
	Service string
	// Secret keeps authority, certificate and keys. It is created when it does not exist.
	Secret string
	// Mutating and Validating are the webhook configurations that are told the authority.
	Mutating, Validating string
	// Dir is a folder that only this process writes to.
	Dir string

	// ExtraNames are further host names for the certificate.
	ExtraNames []string
	// AuthorityLifetime, ServerLifetime and RenewBefore are 10 years, 1 year and 90 days by default.
	AuthorityLifetime, ServerLifetime, RenewBefore time.Duration
	// CheckEvery is how often the expiry is looked at, besides whenever the Secret changes: DefaultCheckEvery by default.
	CheckEvery time.Duration
}

// Check says what is missing.
func (o Options) Check() error {
	var problems []error
	for _, required := range []struct{ name, value string }{
		{"the namespace (POD_NAMESPACE)", o.Namespace}, {"the Service", o.Service}, {"the Secret", o.Secret},
		{"the mutating configuration", o.Mutating}, {"the validating configuration", o.Validating}, {"the folder", o.Dir},
	} {
		if required.value == "" {
			problems = append(problems, fmt.Errorf("%s must be named", required.name))
		}
	}
	if o.CheckEvery < 0 {
		problems = append(problems, errors.New("the time between two looks at the expiry must not be negative"))
	}
	return errors.Join(problems...)
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.AuthorityLifetime, authorityLifetime}, {&o.ServerLifetime, serverLifetime},
		{&o.RenewBefore, renewBefore}, {&o.CheckEvery, DefaultCheckEvery},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return o
}

// Rotate adds the making and renewing of the certificate to the manager, on every replica: whichever comes first writes, and
// the others take what it wrote. The check that it returns fails until the server has a certificate that the API server was
// told to trust.
func Rotate(ctx context.Context, mgr ctrl.Manager, source *Source, opts Options) (ready func(*http.Request) error, err error) {
	if err := opts.Check(); err != nil {
		return nil, fmt.Errorf("setting up the rotation of the webhooks' certificate: %w", err)
	}
	opts = opts.withDefaults()
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("setting up the rotation of the webhooks' certificate: %w", err)
	}
	secret := types.NamespacedName{Namespace: opts.Namespace, Name: opts.Secret}
	if err := source.watch(ctx, mgr, secret, opts.Dir); err != nil {
		return nil, err
	}
	host := opts.Service + "." + opts.Namespace + ".svc"
	trusted := make(chan struct{})
	err = rotator.AddRotator(mgr, &rotator.CertRotator{
		SecretKey:              secret,
		CertDir:                opts.Dir,
		CAName:                 "sless-webhooks",
		CAOrganization:         "sless",
		DNSName:                host,
		ExtraDNSNames:          append([]string{host + ".cluster.local"}, opts.ExtraNames...),
		IsReady:                trusted,
		FieldOwner:             fieldOwner,
		CaCertDuration:         opts.AuthorityLifetime,
		ServerCertDuration:     opts.ServerLifetime,
		LookaheadInterval:      opts.RenewBefore,
		RotationCheckFrequency: opts.CheckEvery,
		Webhooks: []rotator.WebhookInfo{
			{Name: opts.Mutating, Type: rotator.Mutating}, {Name: opts.Validating, Type: rotator.Validating},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the rotation of the webhooks' certificate: %w", err)
	}
	return func(r *http.Request) error {
		select {
		case <-trusted:
			return source.Loaded(r)
		default:
			return errors.New("the API server has not been told of the webhooks' certificate yet")
		}
	}, nil
}
