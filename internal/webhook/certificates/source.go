// SPDX-License-Identifier: Apache-2.0

// Package certificates gives the webhook server a certificate that is kept in a Secret and renewed in time, and tells the
// API server whom to trust. cert-controller makes and renews; this package brings the certificate from the Secret into the
// running server at once. A mounted Secret would be there up to a minute and a half later, and the server would be refused
// for as long whenever the authority changes.
package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// Names of the parts in the Secret and in the folder.
const (
	certName = "tls.crt"
	keyName  = "tls.key"
)

// retry is how long is waited before the Secret is made again after an error.
const retry = time.Second

// Source holds the certificate that the webhook server shows.
type Source struct {
	current atomic.Pointer[tls.Certificate]
	pem     atomic.Pointer[[]byte]
	client  client.Client
	cache   cache.Cache
	secret  types.NamespacedName
	// dir gets a copy of the certificate, without its key, for cert-controller, which looks there whether the server has it.
	dir  string
	lost chan struct{}
}

// NewSource returns a source without a certificate. Every handshake fails until there is one.
func NewSource() *Source { return &Source{lost: make(chan struct{}, 1)} }

// GetCertificate is for a tls.Config.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := s.current.Load(); current != nil {
		return current, nil
	}
	return nil, errors.New("the webhook server has no certificate yet")
}

// Loaded is a readiness check: it fails until there is a certificate.
func (s *Source) Loaded(*http.Request) error {
	_, err := s.GetCertificate(nil)
	return err
}

// watch follows the Secret from now on, and makes an empty one when there is none: cert-controller fills it, but does not
// create it.
func (s *Source) watch(ctx context.Context, mgr ctrl.Manager, secret types.NamespacedName, dir string) error {
	s.secret, s.dir, s.client = secret, dir, mgr.GetClient()
	if err := s.ensureSecret(ctx); err != nil {
		return err
	}
	stored := &corev1.Secret{}
	if err := mgr.GetAPIReader().Get(ctx, secret, stored); err != nil {
		return fmt.Errorf("reading the Secret of the webhooks' certificate: %w", err)
	}
	s.take(ctx, stored)
	var err error
	s.cache, err = cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{secret.Namespace: {}},
			Field:      fields.OneTermEqualSelector("metadata.name", secret.Name),
		}},
	})
	if err != nil {
		return fmt.Errorf("watching the Secret of the webhooks' certificate: %w", err)
	}
	informer, err := s.cache.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching the Secret of the webhooks' certificate: %w", err)
	}
	take := func(obj any) {
		if secret, ok := obj.(*corev1.Secret); ok {
			s.take(ctx, secret)
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: take, UpdateFunc: func(_, obj any) { take(obj) },
		DeleteFunc: func(any) {
			select {
			case s.lost <- struct{}{}:
			default:
			}
		},
	}); err != nil {
		return fmt.Errorf("watching the Secret of the webhooks' certificate: %w", err)
	}
	return mgr.Add(s)
}

// NeedLeaderElection says that every replica follows the Secret: each one serves.
func (s *Source) NeedLeaderElection() bool { return false }

// Start follows the Secret until the context ends.
func (s *Source) Start(ctx context.Context) error {
	go s.restore(ctx)
	return s.cache.Start(ctx)
}

// restore makes the Secret again whenever somebody deletes it. The server goes on with what it has meanwhile.
func (s *Source) restore(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.lost:
		}
		for s.ensureSecret(ctx) != nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(retry):
			}
		}
		logf.FromContext(ctx).Info("Made the Secret of the webhooks' certificate again", "secret", s.secret)
	}
}

func (s *Source) ensureSecret(ctx context.Context) error {
	err := s.client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: s.secret.Name, Namespace: s.secret.Namespace,
		Labels: map[string]string{"app.kubernetes.io/name": "sless"},
	}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the Secret of the webhooks' certificate: %w", err)
	}
	return nil
}

// take shows the certificate of a Secret from now on. What is no certificate, such as an empty Secret, changes nothing.
func (s *Source) take(ctx context.Context, secret *corev1.Secret) {
	log := logf.FromContext(ctx)
	if len(secret.Data[certName]) == 0 {
		return
	}
	if shown := s.pem.Load(); shown != nil && bytes.Equal(*shown, secret.Data[certName]) {
		return
	}
	pair, err := tls.X509KeyPair(secret.Data[certName], secret.Data[keyName])
	if err != nil {
		log.Error(err, "Failed to use the webhooks' certificate, keeping the one before")
		return
	}
	s.current.Store(&pair)
	s.pem.Store(new(secret.Data[certName]))
	if err := os.WriteFile(filepath.Join(s.dir, certName), secret.Data[certName], 0o600); err != nil {
		log.Error(err, "Failed to tell that the webhooks' certificate is in use")
		return
	}
	log.Info("Serving webhooks with a certificate", "expires", pair.Leaf.NotAfter)
}
