// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestAllowsHost(t *testing.T) {
	t.Parallel()
	gateway := Gateway{AllowedHosts: []AllowedHost{
		{Host: "www.example.com"},
		{Host: "*.open.example.com"},
		{Host: "*.shop.example.com", Namespaces: []string{"shop", "shop-test"}},
		{Host: "shop.example.com", Namespaces: []string{"shop"}},
		{Host: "one.shop.example.com", Namespaces: []string{"partner"}},
	}}
	tests := map[string]struct {
		namespace, host string
		want            bool
	}{
		"by name, all namespaces":         {namespace: "bank", host: "www.example.com", want: true},
		"a name is not a domain":          {namespace: "bank", host: "x.www.example.com"},
		"below a domain":                  {namespace: "bank", host: "a.open.example.com", want: true},
		"far below a domain":              {namespace: "bank", host: "a.b.open.example.com", want: true},
		"the domain itself":               {namespace: "bank", host: "open.example.com"},
		"a name that ends like a domain":  {namespace: "bank", host: "not-open.example.com"},
		"of its namespace":                {namespace: "shop", host: "a.shop.example.com", want: true},
		"of another of its namespaces":    {namespace: "shop-test", host: "a.shop.example.com", want: true},
		"of another namespace":            {namespace: "bank", host: "a.shop.example.com"},
		"the name of its namespace":       {namespace: "shop", host: "shop.example.com", want: true},
		"the name, not of this namespace": {namespace: "shop-test", host: "shop.example.com"},
		"one entry of two is enough":      {namespace: "partner", host: "one.shop.example.com", want: true},
		"in no entry":                     {namespace: "shop", host: "login.example.com"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := gateway.AllowsHost(tc.namespace, tc.host); got != tc.want {
				t.Errorf("AllowsHost(%s, %s) = %v", tc.namespace, tc.host, got)
			}
		})
	}
	if open := (Gateway{}); !open.AllowsHost("bank", "login.example.com") {
		t.Error("without a list not every host is allowed")
	}
}

func TestLoadAllowedHosts(t *testing.T) {
	t.Parallel()
	entry := func(text string) string { return complete + "  allowedHosts:\n  - " + text + "\n" }
	const host = "allowedHosts[0].host must be"
	tests := map[string]struct {
		text    string
		want    []AllowedHost
		wantErr string
	}{
		"none":      {text: complete},
		"no entry":  {text: complete + "  allowedHosts: []\n"},
		"a name":    {text: entry("host: a.example.com"), want: []AllowedHost{{Host: "a.example.com"}}},
		"wildcards": {text: entry(`{host: "*.test", namespaces: [shop]}`), want: []AllowedHost{{Host: "*.test", Namespaces: []string{"shop"}}}},

		"an empty entry":           {text: entry("{}"), wantErr: host},
		"namespaces without host":  {text: entry("namespaces: [shop]"), wantErr: host},
		"everything":               {text: entry(`host: "*"`), wantErr: host},
		"a wildcard of nothing":    {text: entry(`host: "*."`), wantErr: host},
		"a wildcard in the middle": {text: entry(`host: "a.*.example.com"`), wantErr: host},
		"half a label":             {text: entry(`host: "*shop.example.com"`), wantErr: host},
		"one label":                {text: entry("host: localhost"), wantErr: host},
		"upper case":               {text: entry("host: Shop.example.com"), wantErr: host + " a host name in lower case"},
		"a dot at its end":         {text: entry("host: shop.example.com."), wantErr: host},
		"an address":               {text: entry(`host: "https://shop.example.com"`), wantErr: host},
		"a port":                   {text: entry(`host: "shop.example.com:443"`), wantErr: host},
		"an empty namespace":       {text: entry(`{host: a.example.com, namespaces: [shop, ""]}`), wantErr: "allowedHosts[0].namespaces[1] must be"},
		"a pattern of namespaces":  {text: entry(`{host: a.example.com, namespaces: ["*"]}`), wantErr: "allowedHosts[0].namespaces[0] must be"},
		"a text, not an entry":     {text: entry("a.example.com"), wantErr: "allowedHosts"},
		"an unknown field":         {text: entry("{host: a.example.com, namespace: shop}"), wantErr: `unknown field "namespace"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Load(write(t, tc.text), func(string) string { return "" })
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Gateway.AllowedHosts, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
