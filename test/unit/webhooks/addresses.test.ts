import { describe, expect, test } from 'vitest';
import { parseAllowRules, targetProblem, urlProblem } from '../../../shared/webhooks/addresses.ts';

describe('without rules', () => {
  test.each([
    'https://example.com/hooks',
    'https://example.com:8443/hooks?a=1',
    'https://93.184.216.34/',
    'https://[2606:2800:220:1:248:1893:25c8:1946]/',
  ])('%s may be an endpoint', (url) => {
    expect(urlProblem(url, [])).toBeUndefined();
  });

  test.each([
    ['hooks', 'absolute URL'],
    [' https://example.com/', 'spaces'],
    ['https://example.com/a b', 'spaces'],
    ['https://example.com/\n', 'spaces'],
    ['https://exa\u0000mple.com/', 'spaces'],
    ['/hooks', 'absolute URL'],
    ['ftp://example.com/', 'https'],
    ['http://example.com/', 'https'],
    ['https://example.com:444/', 'port'],
    ['https://user@example.com/', 'user name'],
    ['https://user:pw@example.com/', 'user name'],
    ['https://example.com/#x', 'fragment'],
    ['https://127.0.0.1/', 'not public'],
    ['https://2130706433/', 'not public'],
    ['https://0x7f.1/', 'not public'],
    ['https://017700000001/', 'not public'],
    ['https://127.1/', 'not public'],
    ['https://１２７.0.0.1/', 'not public'],
    ['https://127.0.0.1./', 'not public'],
    ['https://[::1]/', 'not public'],
    ['https://[::ffff:169.254.169.254]/', 'not public'],
    ['https://[::ffff:7f00:1]/', 'not public'],
    ['https://169.254.169.254/latest/meta-data', 'not public'],
  ])('%s may not: %s', (url, problem) => {
    expect(urlProblem(url, [])).toContain(problem);
  });

  test.each([
    ['this network', '0.0.0.0'],
    ['private', '10.1.2.3'],
    ['private', '172.31.255.255'],
    ['private', '192.168.0.1'],
    ['carrier-grade NAT', '100.64.0.1'],
    ['Alibaba metadata', '100.100.100.200'],
    ['Azure metadata', '168.63.129.16'],
    ['Oracle metadata', '192.0.0.192'],
    ['AWS metadata', 'fd00:ec2::254'],
    ['benchmarking', '198.18.0.1'],
    ['documentation', '203.0.113.9'],
    ['multicast', '224.0.0.1'],
    ['reserved', '240.0.0.1'],
    ['broadcast', '255.255.255.255'],
    ['unspecified', '::'],
    ['loopback', '::1'],
    ['IPv4-compatible', '::7f00:1'],
    ['IPv4-mapped', '::ffff:127.0.0.1'],
    ['IPv4-mapped though public', '::ffff:93.184.216.34'],
    ['IPv4-translated', '::ffff:0:127.0.0.1'],
    ['NAT64', '64:ff9b::7f00:1'],
    ['local NAT64', '64:ff9b:1::7f00:1'],
    ['6to4', '2002:7f00:1::'],
    ['Teredo', '2001:0:7f00:1::'],
    ['link-local', 'fe80::1'],
    ['site-local', 'fec0::1'],
    ['unique-local', 'fc00::1'],
    ['multicast', 'ff02::1'],
    ['documentation', '2001:db8::1'],
    ['documentation', '3fff::1'],
    ['discard', '100::1'],
    ['nothing', ''],
  ])('%s (%s) is not dialled', (_, address) => {
    expect(targetProblem({ protocol: 'https:', address, port: 443 }, [])).toBeTypeOf('string');
  });
});

describe('rules', () => {
  const rules = parseAllowRules('127.0.0.0/8, ::1/128:9000, 10.0.0.0/8:8080-8090,192.168.1.0/24:*');

  test.each([
    ['http:', '127.9.9.9', 1],
    ['https:', '127.0.0.1', 65535],
    ['http:', '::1', 9000],
    ['http:', '10.1.1.1', 8080],
    ['http:', '10.1.1.1', 8090],
    ['https:', '192.168.1.7', 22],
  ])('permit %s %s port %i', (protocol, address, port) => {
    expect(targetProblem({ protocol, address, port }, rules)).toBeUndefined();
  });

  test.each([
    ['::1', 9001],
    ['10.1.1.1', 8079],
    ['10.1.1.1', 8091],
    ['192.168.2.1', 80],
    ['::ffff:127.0.0.1', 80],
    ['93.184.216.34', 80],
  ])('do not permit %s port %i', (address, port) => {
    expect(targetProblem({ protocol: 'http:', address, port }, rules)).toBeTypeOf('string');
  });

  test('permit a name whose address could be permitted', () => {
    expect(
      urlProblem('http://receiver.internal:8085/', parseAllowRules('10.0.0.0/8:8080-8090')),
    ).toBeUndefined();
    expect(urlProblem('http://receiver.internal:9/', parseAllowRules('10.0.0.0/8:8080-8090'))).toContain(
      'https',
    );
    expect(urlProblem('http://localhost:4000/', rules)).toBeUndefined();
  });

  test('treat only localhost as a name of loopback', () => {
    const loopback = parseAllowRules('127.0.0.0/8,::1/128');
    expect(urlProblem('http://localhost:4000/', loopback)).toBeUndefined();
    expect(urlProblem('http://a.localhost:4000/', loopback)).toBeUndefined();
    expect(urlProblem('http://example.com:4000/', loopback)).toContain('https');
    expect(urlProblem('https://localhost/', [])).toContain('not public');
  });

  test.each(['127.0.0.1', '127.0.0.0/33', '300.0.0.0/8', '127.0.0.0/8:70000', '127.0.0.0/8:9-1', 'x', ','])(
    'reject %j with the name of the setting',
    (text) => {
      expect(() => parseAllowRules(text)).toThrow(
        expect.objectContaining({
          code: 'WEBHOOK_ALLOW_INVALID',
          message: expect.stringContaining('SLUICE_WEBHOOK_ALLOW'),
        }),
      );
    },
  );

  test('are empty for an empty text', () => {
    expect(parseAllowRules(' ')).toEqual([]);
  });
});
