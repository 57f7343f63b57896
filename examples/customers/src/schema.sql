create table customers (
    id integer primary key,
    version integer not null default 1,
    name text not null,
    street text not null,
    city text not null,
    phone text not null,
    note text not null default ''
) strict;

create table orders (
    id integer primary key,
    customer integer not null references customers,
    placed text not null,
    what text not null,
    cents integer not null
) strict;

create index orders_of_customer on orders (customer);

insert into customers (id, name, street, city, phone, note) values
    (1, 'Brightwater Books', '14 Quay Street', 'Harwich', '+44 20 7946 0101', 'Prefers deliveries before noon.'),
    (2, 'Brightwater Bookshop', '14 Quay St', 'Harwich', '+44 20 7946 0101', 'Same as Brightwater Books?'),
    (3, 'Copper Kettle Café', '3 Market Row', 'Ludlow', '+44 20 7946 0117', ''),
    (4, 'Fernhill Nursery', 'Fernhill Lane', 'Totnes', '+44 20 7946 0122', 'Closed in January.'),
    (5, 'Hallam & Daughters', '88 Foundry Road', 'Sheffield', '+44 20 7946 0135', 'Pays by the quarter.'),
    (6, 'Tidewrack Surf School', 'The Slipway', 'Bude', '+44 20 7946 0148', '');

insert into orders (customer, placed, what, cents) values
    (1, '2026-08-02', 'Reading lamp, brass', 6450),
    (1, '2026-09-17', 'Book ladder', 21900),
    (2, '2026-10-05', 'Window display stand', 8800),
    (3, '2026-09-28', 'Twelve bentwood chairs', 93600),
    (4, '2026-07-11', 'Potting bench', 17500),
    (5, '2026-10-20', 'Workshop stools, four', 31200),
    (6, '2026-06-30', 'Changing-room bench', 14400);

pragma user_version = 1;
